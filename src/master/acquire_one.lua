-- Acquire of one resource that is free, which is nearly all there is: the fewest commands that do it.
-- fence_key: nil without fencing; then fence and lives (ms) mean nothing.
-- Returns what acquire.lua replies; nothing, and has done nothing, where somebody holds it.
local function acquire_one(key, fence_key, token, ttl, fence, lives)
  if not redis.call('SET', key, token, 'PX', ttl, 'NX') then return nil end
  if not fence_key then return 0 end
  local seen = tonumber(redis.call('GET', fence_key) or 0)
  if seen < tonumber(fence) then
    redis.call('SET', fence_key, fence, 'PX', lives)
    return seen
  end
  redis.call('DEL', key)
  return {2, seen}
end
