-- Release or roll back. The tombstone (own fence + 1) makes this master refuse an acquire or a
-- put-back of the same attempt that arrives afterwards. Where all keys were ours the acquire has
-- been here, and its own fence refuses it if it comes again: no tombstone then, unless more may come.
-- KEYS: k lock keys, then, with fencing, their k fence keys.
-- ARGV: token; with fencing: tombstone, fence ttl (ms), more may come ('1': a put-back, or an
--       acquire with a raised fence; '0': neither was ever sent).
-- Reply: how many of the locks were ours and are now gone.
-- release_one.lua stands before this.
local fenced = ARGV[2] ~= nil
local k, n = fenced and #KEYS / 2 or #KEYS, 0
if k == 1 then return release_one(KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3], ARGV[4]) end
for i = 1, k do
  if redis.call('GET', KEYS[i]) == ARGV[1] then n = n + redis.call('DEL', KEYS[i]) end
end
if fenced and (n < k or ARGV[4] == '1') then
  local t = tonumber(ARGV[2])
  for i = k + 1, 2 * k do
    if tonumber(redis.call('GET', KEYS[i]) or 0) < t then
      redis.call('SET', KEYS[i], ARGV[2], 'PX', ARGV[3])
    end
  end
end
return n
