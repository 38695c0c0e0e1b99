-- What stands on a master for one resource. Reads only.
-- KEYS: lock key, fence key; with a restart guard: marker, quarantine.
-- Reply: {value or nil, ms left, fence or nil, state of the guard, ms of quarantine left};
--        the state is 0 no marker, 1 out of quarantine, 2 in quarantine, 3 no guard.
local state, left = 3, 0
if KEYS[3] then
  local found = redis.call('EXISTS', KEYS[3], KEYS[3], KEYS[4])
  state = found == 2 and 1 or found == 3 and 2 or 0
  if state == 2 then left = math.max(1, redis.call('PTTL', KEYS[4])) end
end
return {redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1]), redis.call('GET', KEYS[2]), state, left}
