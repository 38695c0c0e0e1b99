-- A group: operations of many callers in one call, each as if it had come by itself.
-- KEYS: those of every operation, one after another.
-- ARGV: for each operation a header (its name a, e or r, how many keys it has, how many arguments),
--       and its arguments.
-- Reply: for each operation its reply, or, where it failed, the error as a string.
-- acquire.lua, extend.lua and release.lua stand as functions between this and group_tail.lua; before
-- it, acquire_one.lua and release_one.lua.
--
-- Before the first write, since what one operation reads decides what it writes (Redis before 7.0).
if redis.replicate_commands then redis.replicate_commands() end
local operations = {}
-- Operations on one resource, by their headers: those take no tables for their keys and arguments.
local quick = {}
