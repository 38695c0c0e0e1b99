-- Acquire, all keys or none. Also raises an own proposal, also repeats one whose reply was lost.
-- KEYS: k lock keys, then, with fencing, their k fence keys.
-- ARGV: token, ttl (ms); with fencing: fence, fence ttl (ms).
-- Reply: seen, a number: granted; {2, seen}: stale, propose more than seen;
--        {0, seen, wait}: busy for at most wait ms (-1: a lock in the way has no expiry).
-- acquire_one.lua stands before this.
local fenced = ARGV[3] ~= nil
local k, f = fenced and #KEYS / 2 or #KEYS, tonumber(ARGV[3])
if k == 1 then
  local reply = acquire_one(KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3], ARGV[4])
  if reply then return reply end
end
local seen, stale, fences, free, busy = 0, false, {}, {}, {}
for i = 1, k do
  local owner = redis.call('GET', KEYS[i])
  local fence = fenced and tonumber(redis.call('GET', KEYS[k + i]) or 0) or 0
  fences[i] = fence
  if fence > seen then seen = fence end
  if not owner then
    free[#free + 1] = i
    if fenced and fence >= f then stale = true end
  elseif owner ~= ARGV[1] then
    busy[#busy + 1] = i
  end
end
if #busy > 0 then
  local wait = 0
  for _, i in ipairs(busy) do
    local left = redis.call('PTTL', KEYS[i])
    if left < 0 then wait = -1 end
    if wait >= 0 and left > wait then wait = left end
  end
  return {0, seen, wait}
end
if stale then return {2, seen} end
for _, i in ipairs(free) do redis.call('SET', KEYS[i], ARGV[1], 'PX', ARGV[2]) end
if fenced then
  for i = 1, k do
    if fences[i] < f then redis.call('SET', KEYS[k + i], ARGV[3], 'PX', ARGV[4]) end
  end
end
return seen
