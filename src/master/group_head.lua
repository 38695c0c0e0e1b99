-- A group: operations of many callers in one call, each as if it had come by itself.
-- KEYS: those of every operation, one after another.
-- ARGV: for each operation a header (its name a, e or r, how many keys it has, how many arguments), and its
--       arguments. Or for a run (group_runs.lua), of which no two operations have a key in common: its name, how
--       many operations, the arguments that they share, and those of each.
-- Reply: for each operation its reply, or, where it failed, the error as a string.
-- acquire.lua, extend.lua and release.lua stand as functions between this and group_tail.lua; before
-- it, acquire_one.lua and release_one.lua.
--
-- Before the first write, since what one operation reads decides what it writes (Redis before 7.0).
if redis.replicate_commands then redis.replicate_commands() end
local operations, runs = {}, {}

-- Guarded, so that what fails for one (out of memory, a key of another type) fails for it alone.
local function guarded(operation, ...)
  local done, reply = pcall(operation, ...)
  if done then return reply end
  -- Redis before 7.0 raises a string with the place in front.
  local error = type(reply) == 'table' and reply.err or tostring(reply)
  return (string.gsub(error, '^.-user_script: ?%d+: %-?', ''))
end

local function failed(reply) return type(reply) == 'table' and reply.err end
