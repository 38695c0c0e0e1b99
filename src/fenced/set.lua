-- Fenced set: writes the value, unless a later holder has been here.
-- KEYS: the value's key; the key of its fence, in the same hash slot.
-- ARGV: fence; how long the fence is remembered from now on (ms; 0: for good); the value; its time
--       to live (ms; 0: without end).
-- Reply: {1, fence} written; {0, newest} refused, and nothing has changed.
local fence = string.match(ARGV[1], '^[1-9]%d*$') and tonumber(ARGV[1])
if not fence or fence > 9007199254740990 then
  return redis.error_reply('ERR the fence is no whole number from 1 to 9007199254740990')
end
local newest = tonumber(redis.call('GET', KEYS[2]) or 0)
if not newest then return redis.error_reply('ERR what stands under the fence\'s key is no fence') end
if fence < newest then return {0, newest} end
-- First: if what follows fails, the fence is raised and no more, which lets nobody in who is older.
if ARGV[2] == '0' then
  redis.call('SET', KEYS[2], ARGV[1])
else
  redis.call('SET', KEYS[2], ARGV[1], 'PX', ARGV[2])
end
if ARGV[4] == '0' then
  redis.call('SET', KEYS[1], ARGV[3])
else
  redis.call('SET', KEYS[1], ARGV[3], 'PX', ARGV[4])
end
return {1, fence}
