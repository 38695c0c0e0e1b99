local replies, shapes, key, argument = {}, {}, 1, 1
local header = ARGV[argument]
while header do
  local run = runs[header]
  if run then
    local count, size, shared = tonumber(ARGV[argument + 1]), size_of[header], argument + 2
    local own = shared + shared_by[header]
    run(replies, count, key, shared, own)
    key, argument = key + size * count, own + size * count
  else
    local shape = shapes[header]
    if not shape then
      local name, keys, arguments = string.match(header, '^(%a) (%d+) (%d+)$')
      shape = {operations[name], tonumber(keys), tonumber(arguments)}
      shapes[header] = shape
    end
    local next_key, next_argument = key + shape[2], argument + 1 + shape[3]
    replies[#replies + 1] = guarded(
      shape[1], {unpack(KEYS, key, next_key - 1)}, {unpack(ARGV, argument + 1, next_argument - 1)}
    )
    key, argument = next_key, next_argument
  end
  header = ARGV[argument]
end
return replies
