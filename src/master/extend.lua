-- Extend, all keys or none. Never shortens.
-- KEYS: k lock keys, then, with fencing, their k fence keys.
-- ARGV: token, ttl (ms), put back ('1': write a lock that is missing anew, where nobody with a
--       larger fence has been; '0': only say so); with fencing: fence, fence ttl (ms).
-- Reply: 1 extended; 2 a lock is missing, none is somebody else's, nothing was written;
--        0 not the holder here any more, nothing was written.
if redis.replicate_commands then redis.replicate_commands() end
local fenced = ARGV[4] ~= nil
local k, f = fenced and #KEYS / 2 or #KEYS, tonumber(ARGV[4])
local fences, gone, missing = {}, {}, false
for i = 1, k do
  local owner = redis.call('GET', KEYS[i])
  local fence = fenced and tonumber(redis.call('GET', KEYS[k + i]) or 0) or 0
  fences[i] = fence
  if not owner and (not fenced or fence <= f) then
    gone[i], missing = true, true
  elseif owner ~= ARGV[1] then
    return 0
  end
end
if missing and ARGV[3] ~= '1' then return 2 end
for i = 1, k do
  if gone[i] then
    redis.call('SET', KEYS[i], ARGV[1], 'PX', ARGV[2])
  elseif redis.call('PTTL', KEYS[i]) < tonumber(ARGV[2]) then
    redis.call('PEXPIRE', KEYS[i], ARGV[2])
  end
  if fenced then
    if fences[i] < f then
      redis.call('SET', KEYS[k + i], ARGV[4], 'PX', ARGV[5])
    elseif redis.call('PTTL', KEYS[k + i]) < tonumber(ARGV[5]) then
      redis.call('PEXPIRE', KEYS[k + i], ARGV[5])
    end
  end
end
return 1
