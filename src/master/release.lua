-- Release or roll back. The tombstone (own fence + 1) makes this master refuse an acquire or a
-- put-back of the same attempt that arrives afterwards.
-- KEYS: k lock keys, then, with fencing, their k fence keys.
-- ARGV: token; with fencing: tombstone, fence ttl (ms).
-- Reply: how many of the locks were ours and are now gone.
local fenced = ARGV[2] ~= nil
local k, t, n = fenced and #KEYS / 2 or #KEYS, tonumber(ARGV[2]), 0
for i = 1, k do
  if redis.call('GET', KEYS[i]) == ARGV[1] then n = n + redis.call('DEL', KEYS[i]) end
  if fenced and tonumber(redis.call('GET', KEYS[k + i]) or 0) < t then
    redis.call('SET', KEYS[k + i], ARGV[2], 'PX', ARGV[3])
  end
end
return n
