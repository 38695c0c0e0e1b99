-- release.lua for one resource. fence_key: nil without fencing; then what follows the token means nothing.
local function release_one(key, fence_key, token, tombstone, lives, may_return)
  local n = 0
  if redis.call('GET', key) == token then n = redis.call('DEL', key) end
  if fence_key and (n == 0 or may_return == '1') then
    if tonumber(redis.call('GET', fence_key) or 0) < tonumber(tombstone) then
      redis.call('SET', fence_key, tombstone, 'PX', lives)
    end
  end
  return n
end
