-- What goes before each script where a restart guard is on. A master without the marker has
-- forgotten what it knew: it marks itself, and is in quarantine for the guard's time.
-- KEYS: those of the script, then the marker, the quarantine.
-- ARGV: those of the script, then the guard's time (ms).
if redis.replicate_commands then redis.replicate_commands() end
local guard, quarantine = table.remove(ARGV), table.remove(KEYS)
local marker = table.remove(KEYS)
-- One call where all is well: 2 for the marker, 1 for a quarantine.
local state = redis.call('EXISTS', marker, marker, quarantine)
if state < 2 then
  redis.call('SET', marker, '1')
  redis.call('SET', quarantine, '1', 'PX', guard)
end
local quarantined = state ~= 2
local function left() return math.max(1, redis.call('PTTL', quarantine)) end
