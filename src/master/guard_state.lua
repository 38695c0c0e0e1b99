-- The state of a master's restart guard; or, where told to, the end of it for a master that has
-- not been in use.
-- KEYS: marker, quarantine.
-- ARGV: '1': mark the master, and end a quarantine; '0': only look.
-- Reply: {state, ms}: 0 no marker; 1 out of quarantine; 2 in quarantine for ms more;
--        3 marked just now.
local state = redis.call('EXISTS', KEYS[1], KEYS[1], KEYS[2])
if state == 2 then return {1, 0} end
if ARGV[1] == '1' then
  redis.call('SET', KEYS[1], '1')
  redis.call('DEL', KEYS[2])
  return {3, 0}
end
if state < 2 then return {0, 0} end
return {2, math.max(1, redis.call('PTTL', KEYS[2]))}
