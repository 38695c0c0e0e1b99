-- Runs: operations on one resource each, with the fewest commands that do them. What is not as it mostly is goes
-- the way of a single one. Each run gives its replies, in order; `key` and `argument` are where its first operation's
-- stand, and `shared` is where the arguments that all have.

-- Own: the token. Shared: the ttl.
function runs.A(replies, count, key, shared, argument)
  for i = 0, count - 1 do
    local name, token = KEYS[key + i], ARGV[argument + i]
    local reply = redis.pcall('SET', name, token, 'PX', ARGV[shared], 'NX')
    if not reply then
      reply = guarded(operations.a, {name}, {token, ARGV[shared]})
    else
      reply = reply.err or 0
    end
    replies[#replies + 1] = reply
  end
end

-- Own: token, fence. Shared: ttl, and that of the fence.
function runs.AF(replies, count, key, shared, argument)
  local ttl, lives, fences = ARGV[shared], ARGV[shared + 1], {}
  for i = 1, count do fences[i] = KEYS[key + 2 * i - 1] end
  local seen = redis.pcall('MGET', unpack(fences))
  for i = 1, count do
    local name, fence_key, own = KEYS[key + 2 * i - 2], fences[i], argument + 2 * i - 2
    local token, fence, newest = ARGV[own], ARGV[own + 1], tonumber(seen[i] or nil)
    local reply
    -- No fence that can be told in advance: there is none, or it is something else.
    if newest and newest < tonumber(fence) then
      local set = redis.pcall('SET', name, token, 'PX', ttl, 'NX')
      if set then
        reply = set.err or failed(redis.pcall('SET', fence_key, fence, 'PX', lives)) or newest
      end
    end
    if not reply then reply = guarded(operations.a, {name, fence_key}, {token, ttl, fence, lives}) end
    replies[#replies + 1] = reply
  end
end

-- Releases, each with so many keys and own arguments (the token first). Gives those whose key was not theirs.
local function release(replies, count, size, key, argument)
  local names, ours, places, others = {}, {}, {}, {}
  for i = 1, count do names[i] = KEYS[key + size * (i - 1)] end
  local tokens = redis.pcall('MGET', unpack(names))
  for i = 1, count do
    local place = #replies + 1
    if tokens[i] == ARGV[argument + size * (i - 1)] then
      ours[#ours + 1], places[#places + 1], replies[place] = names[i], place, 1
    else
      others[#others + 1], replies[place] = i, 0
    end
  end
  local failure = #ours > 0 and failed(redis.pcall('DEL', unpack(ours)))
  if failure then
    for _, place in ipairs(places) do replies[place] = failure end
  end
  return others
end

-- Own: the token.
function runs.R(replies, count, key, _, argument)
  local first = #replies
  for _, i in ipairs(release(replies, count, 1, key, argument)) do
    replies[first + i] = guarded(operations.r, {KEYS[key + i - 1]}, {ARGV[argument + i - 1]})
  end
end

-- Own: token, tombstone. Shared: the ttl of the fence. For what no other write can follow.
function runs.RF(replies, count, key, shared, argument)
  local first = #replies
  for _, i in ipairs(release(replies, count, 2, key, argument)) do
    local name, own = key + 2 * i - 2, argument + 2 * i - 2
    replies[first + i] = guarded(
      operations.r, {KEYS[name], KEYS[name + 1]}, {ARGV[own], ARGV[own + 1], ARGV[shared], '0'}
    )
  end
end

local shared_by = {A = 1, AF = 2, R = 0, RF = 1}
local size_of = {A = 1, AF = 2, R = 1, RF = 2}
