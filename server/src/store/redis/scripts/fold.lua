#!lua
-- Folds a part of the overlay into the objects. Readers see the same before, meanwhile and
-- after. Anybody may do it, as often as they like.
--
-- KEYS  head, overlay, overlay_lines, objects, ids, owned, versions, removed, statuses,
--       status_versions, ended, log, lines, line_order, serials, buried
-- ARGV  how many rows at most, removals_max, log_max, life of what was deleted in us
--
-- Replies how many rows and lines are left.
local head, overlay, overlay_lines, objects, ids, owned = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local versions, removed, statuses, status_versions = KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local ended, log, lines, line_order = KEYS[11], KEYS[12], KEYS[13], KEYS[14]
local serials, buried = KEYS[15], KEYS[16]
local count = tonumber(ARGV[1])
-- A key that was made something else by hand must not stop us halfway.
for at, kind in ipairs({'hash', 'hash', 'list', 'hash', 'zset', 'zset', 'zset', 'zset', 'hash', 'zset', 'zset', 'hash', 'zset', 'zset', 'hash', 'hash'}) do
  local is = redis.call('TYPE', KEYS[at]).ok
  if is ~= 'none' and is ~= kind then return redis.error_reply('WRONGTYPE ' .. KEYS[at] .. ' is a ' .. is) end
end

-- An overlay that the head does not name was left by hand: it is seen, and so it is folded in.
local version = redis.call('HGET', head, 'overlay') or redis.call('HGET', head, 'version')
local at_us = redis.call('HGET', head, 'overlay_at') or '0'
if not version then return 0 end

local found = redis.call('HRANDFIELD', overlay, count, 'WITHVALUES')
for at = 1, #found, 2 do
  local key, value = found[at], found[at + 1]
  local kind, parent, id = string.match(key, '^(%d)([^%z]*)%z(.*)$')
  if value == '-' then
    local old = redis.call('HGET', objects, key)
    if old then
      local serial, owner = string.match(old, '^(%d+) %d+ %d+ %d+ ([^\n]*)\n')
      redis.call('HDEL', objects, key)
      if serial then
        redis.call('ZREM', owned, kind .. owner .. '\0' .. id)
        local number = kind .. ' ' .. serial
        redis.call('ZADD', ended, at_us, number .. ' ' .. parent .. '\0' .. id)
        redis.call('HDEL', serials, number)
        redis.call('HSET', buried, number, key .. '\n' .. old)
      end
    end
    redis.call('ZREM', ids, key)
    redis.call('ZREM', versions, key)
    redis.call('ZADD', removed, version, key)
    if kind == '4' then
      redis.call('HDEL', statuses, id)
      redis.call('ZREM', status_versions, id)
    end
  else
    local old = redis.call('HGET', objects, key)
    local old_owner = old and string.match(old, '^%d+ %d+ %d+ %d+ ([^\n]*)\n')
    local owner = string.match(value, '^%d+ %d+ %d+ %d+ ([^\n]*)\n')
    if old_owner and old_owner ~= owner then redis.call('ZREM', owned, kind .. old_owner .. '\0' .. id) end
    redis.call('HSET', objects, key, value)
    local serial = string.match(value, '^(%d+) ')
    if serial then redis.call('HSET', serials, kind .. ' ' .. serial, key) end
    redis.call('ZADD', versions, string.match(value, '^%d+ (%d+)') or version, key)
    redis.call('ZREM', removed, key)
  end
  redis.call('HDEL', overlay, key)
end

local told = redis.call('LPOP', overlay_lines, count) or {}
local line = tonumber(redis.call('HGET', head, 'overlay_line') or '0')
for _, entry in ipairs(told) do
  local id, record = string.match(entry, '^([^\n]*)\n(.*)$')
  line = line + 1
  local field = version .. '.' .. string.format('%.0f', line)
  redis.call('HSET', log, field, record)
  redis.call('ZADD', lines, 0, id .. '\0' .. string.format('%016.0f.%08.0f', tonumber(version), line))
  redis.call('ZADD', line_order, version, field .. ' ' .. id)
end
-- What is too much goes, twice as fast as it comes.
local function spare(key, max)
  return math.min(math.max(redis.call('ZCARD', key) - tonumber(max), 0), 2 * count)
end
local gone = spare(removed, ARGV[2])
if gone > 0 then
  local popped = redis.call('ZPOPMIN', removed, gone)
  redis.call('HSET', head, 'removed_from', popped[#popped])
end
gone = spare(line_order, ARGV[3])
if gone > 0 then
  local popped = redis.call('ZPOPMIN', line_order, gone)
  for i = 1, #popped, 2 do
    local v, n, id = string.match(popped[i], '^(%d+)%.(%d+) (.*)$')
    if v then
      redis.call('HDEL', log, v .. '.' .. n)
      redis.call('ZREM', lines, id .. '\0' .. string.format('%016.0f.%08.0f', tonumber(v), tonumber(n)))
    end
  end
end
local ended_before_us = string.format('%.0f', tonumber(at_us) - tonumber(ARGV[4]))
for _, member in ipairs(redis.call('ZRANGEBYSCORE', ended, '-inf', '(' .. ended_before_us, 'LIMIT', 0, 2 * count)) do
  redis.call('ZREM', ended, member)
  redis.call('HDEL', buried, string.match(member, '^%d+ %d+') or '')
end
local left = redis.call('HLEN', overlay) + redis.call('LLEN', overlay_lines)
if left == 0 then
  redis.call('HDEL', head, 'overlay', 'overlay_at', 'overlay_line')
else
  redis.call('HSET', head, 'overlay_line', line)
end
return left
