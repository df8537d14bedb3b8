#!lua
-- One small change of the catalogue, all or nothing.
--
-- KEYS  head, objects, ids, owned, versions, removed, statuses, status_versions, log, changes,
--       lines, line_order, ended, serials, buried
-- ARGV  base version, at_us, forced (0 or 1), mark, prefix, removals_max, log_max,
--       ended_before_us, how many of those at least, number of deletes, puts, statuses and lines; then
--       a delete:  key
--       a put:     key, owner, status (0: as it was), body
--       a status:  campaign's id, status
--       a line:    object's id, record
--
-- Replies {"ok", version}, {"conflict", head} where the base is not the head, or {"fold"} where
-- a staged change has first to be folded in (a change of statuses alone need not wait for that).
-- The shebang makes a Redis without memory refuse all of it before the first write.
local head, objects, ids, owned, versions, removed = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local statuses, status_versions, log, changes = KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local lines, line_order, ended, serials, buried = KEYS[11], KEYS[12], KEYS[13], KEYS[14], KEYS[15]
local base, at_us, forced, mark, prefix = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local removals_max, log_max, ended_before_us = tonumber(ARGV[6]), tonumber(ARGV[7]), ARGV[8]
local swept = tonumber(ARGV[9])
local n_deletes, n_puts, n_statuses, n_lines =
  tonumber(ARGV[10]), tonumber(ARGV[11]), tonumber(ARGV[12]), tonumber(ARGV[13])
local at = 14

-- A key that was made something else by hand must not stop us halfway.
for at, kind in ipairs({'hash', 'hash', 'zset', 'zset', 'zset', 'zset', 'hash', 'zset', 'hash', 'zset', 'zset', 'zset', 'zset', 'hash', 'hash'}) do
  local is = redis.call('TYPE', KEYS[at]).ok
  if is ~= 'none' and is ~= kind then return redis.error_reply('WRONGTYPE ' .. KEYS[at] .. ' is a ' .. is) end
end

local now = redis.call('HGET', head, 'version') or '0'
if now ~= base then return {'conflict', now} end
if n_deletes + n_puts > 0 and redis.call('HEXISTS', head, 'overlay') == 1 then return {'fold'} end
local version = string.format('%.0f', tonumber(now) + 1)
local ads = 0

-- A stored object: serial, version, status, version of the status, owner, body.
local function parts(value)
  if not value then return nil end
  return string.match(value, '^(%d+) (%d+) (%d+) (%d+) ([^\n]*)\n(.*)$')
end

for _ = 1, n_deletes do
  local key = ARGV[at]
  at = at + 1
  local value = redis.call('HGET', objects, key)
  if value then
    local serial, _, _, _, owner = parts(value)
    local kind, parent, id = string.match(key, '^(%d)([^%z]*)%z(.*)$')
    redis.call('HDEL', objects, key)
    redis.call('ZREM', ids, key)
    redis.call('ZREM', versions, key)
    if owner then redis.call('ZREM', owned, kind .. owner .. '\0' .. id) end
    redis.call('ZADD', removed, version, key)
    if serial then
      local number = kind .. ' ' .. serial
      redis.call('ZADD', ended, at_us, number .. ' ' .. parent .. '\0' .. id)
      redis.call('HDEL', serials, number)
      redis.call('HSET', buried, number, key .. '\n' .. value)
    end
    if kind == '4' then
      redis.call('HDEL', statuses, id)
      redis.call('ZREM', status_versions, id)
    end
    if kind == '5' then ads = ads - 1 end
  end
end

for _ = 1, n_puts do
  local key, owner, status, body = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
  at = at + 4
  local kind, id = string.sub(key, 1, 1), string.match(key, '%z(.*)$')
  local value = redis.call('HGET', objects, key)
  local serial, _, old_status, status_version, old_owner = parts(value)
  if not serial then
    serial = string.format('%.0f', redis.call('HINCRBY', head, 'serial:' .. kind, 1))
    redis.call('HSET', serials, kind .. ' ' .. serial, key)
    -- A campaign that was damaged is not woken: what is not known as active is not shown.
    old_status, status_version = (value and kind == '4') and '2' or '0', '0'
  end
  if not value then
    if status == '0' and kind == '4' then status = '1' end
    if kind == '5' then ads = ads + 1 end
    redis.call('ZADD', ids, 0, key)
    redis.call('ZREM', removed, key)
  end
  if status == '0' then status = old_status else status_version = version end
  redis.call('HSET', objects, key, table.concat({serial, version, status, status_version, owner}, ' ') .. '\n' .. body)
  redis.call('ZADD', versions, version, key)
  if old_owner and old_owner ~= owner then redis.call('ZREM', owned, kind .. old_owner .. '\0' .. id) end
  if owner ~= '' then redis.call('ZADD', owned, 0, kind .. owner .. '\0' .. id) end
end

for _ = 1, n_statuses do
  redis.call('HSET', statuses, ARGV[at], ARGV[at + 1] .. ' ' .. version)
  redis.call('ZADD', status_versions, version, ARGV[at])
  at = at + 2
end

for line = 0, n_lines - 1 do
  local id, record = ARGV[at], ARGV[at + 1]
  at = at + 2
  local field = version .. '.' .. line
  redis.call('HSET', log, field, record)
  redis.call('ZADD', lines, 0, id .. '\0' .. string.format('%016.0f.%08.0f', tonumber(version), line))
  if line > 0 then redis.call('ZADD', line_order, version, field .. ' ' .. id) end
end
redis.call('ZADD', changes, version, version .. ' ' .. mark .. ' ' .. (n_lines > 0 and ARGV[at - 2 * n_lines] or ''))

-- What is too much goes, a little at a time.
local function forget(field, id)
  local v, line = string.match(field, '^(%d+)%.(%d+)$')
  redis.call('HDEL', log, field)
  redis.call('ZREM', lines, id .. '\0' .. string.format('%016.0f.%08.0f', tonumber(v), tonumber(line)))
end
if redis.call('ZCARD', changes) > log_max then
  for _, member in ipairs(redis.call('ZPOPMIN', changes, 10)) do
    local v, id = string.match(member, '^(%d+) %d+ (.*)$')
    if v then forget(v .. '.0', id) end
  end
end
if redis.call('ZCARD', line_order) > log_max then
  for _, member in ipairs(redis.call('ZPOPMIN', line_order, 500)) do
    local field, id = string.match(member, '^(%d+%.%d+) (.*)$')
    if field then forget(field, id) end
  end
end
local spare = redis.call('ZCARD', removed) - removals_max
if spare > 0 then
  local gone = redis.call('ZPOPMIN', removed, math.min(spare, 1000))
  local newest = gone[#gone]
  redis.call('HSET', head, 'removed_from', newest)
end
local lapsed = redis.call('ZRANGEBYSCORE', ended, '-inf', '(' .. ended_before_us, 'LIMIT', 0, swept + 2 * n_deletes)
for _, member in ipairs(lapsed) do
  redis.call('ZREM', ended, member)
  redis.call('HDEL', buried, string.match(member, '^%d+ %d+') or '')
end

redis.call('HSET', head, 'version', version, 'mark', mark)
if ads ~= 0 then redis.call('HINCRBY', head, 'ads', ads) end
if forced == '1' then redis.call('HSET', head, 'forced_version', version) end
redis.call('PUBLISH', prefix .. ':hint', version)
return {'ok', version}
