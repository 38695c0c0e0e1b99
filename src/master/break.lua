-- Breaks a lock for an operator: deletes it where it is one of those that were seen, and leaves a
-- fence that is larger than its holder's, so that none of its extensions is put back. Where somebody
-- else holds it by now nothing is touched.
-- KEYS: lock key, fence key.
-- ARGV: fence, fence ttl (ms), the values that were seen.
-- Reply: 1 deleted, 0 not there or somebody else's.
if redis.replicate_commands then redis.replicate_commands() end
local owner, was_seen = redis.call('GET', KEYS[1]), false
for i = 3, #ARGV do was_seen = was_seen or ARGV[i] == owner end
if owner and not was_seen then return 0 end
if owner then redis.call('DEL', KEYS[1]) end
if tonumber(redis.call('GET', KEYS[2]) or 0) < tonumber(ARGV[1]) then
  redis.call('SET', KEYS[2], ARGV[1], 'PX', ARGV[2])
else
  local left = redis.call('PTTL', KEYS[2])
  if left >= 0 and left < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[2], ARGV[2]) end
end
return owner and 1 or 0
