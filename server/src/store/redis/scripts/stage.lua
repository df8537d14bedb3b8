#!lua
-- A part of a large change, put aside where no reader looks, to become visible by one flip.
--
-- KEYS  head, objects, ids, owned, stage_rows, stage_lines
-- ARGV  base version, life of the stage in ms, number of deletes, puts and lines; then
--       a delete:  key
--       a put:     key, owner, status (0: as it was), body
--       a line:    object's id, record
--
-- Replies {"ok", change of the number of ads, rows staged}, {"conflict", head} or {"fold"}; what was staged
-- under another base is of no use, and lapses. Ids and owners are listed at once: readers pass
-- over those that have no such object.
local head, objects, ids, owned = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local stage_rows, stage_lines = KEYS[5], KEYS[6]
local base, life_ms = ARGV[1], ARGV[2]
local n_deletes, n_puts, n_lines = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local at = 6

-- A key that was made something else by hand must not stop us halfway.
for at, kind in ipairs({'hash', 'hash', 'zset', 'zset', 'hash', 'list'}) do
  local is = redis.call('TYPE', KEYS[at]).ok
  if is ~= 'none' and is ~= kind then return redis.error_reply('WRONGTYPE ' .. KEYS[at] .. ' is a ' .. is) end
end

local now = redis.call('HGET', head, 'version') or '0'
if now ~= base then return {'conflict', now} end
if redis.call('HEXISTS', head, 'overlay') == 1 then return {'fold'} end
local version = string.format('%.0f', tonumber(now) + 1)
local ads, rows = 0, 0

for _ = 1, n_deletes do
  local key = ARGV[at]
  at = at + 1
  if redis.call('HEXISTS', objects, key) == 1 then
    redis.call('HSET', stage_rows, key, '-')
    rows = rows + 1
    if string.sub(key, 1, 1) == '5' then ads = ads - 1 end
  end
end

for _ = 1, n_puts do
  local key, owner, status, body = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
  at = at + 4
  local kind, id = string.sub(key, 1, 1), string.match(key, '%z(.*)$')
  local value = redis.call('HGET', objects, key)
  local serial, _, old_status, status_version
  if value then
    serial, _, old_status, status_version = string.match(value, '^(%d+) (%d+) (%d+) (%d+) ')
  end
  if not serial then
    serial = string.format('%.0f', redis.call('HINCRBY', head, 'serial:' .. kind, 1))
    -- A campaign that was damaged is not woken: what is not known as active is not shown.
    old_status, status_version = (value and kind == '4') and '2' or '0', '0'
  end
  if not value then
    if status == '0' and kind == '4' then status = '1' end
    if kind == '5' then ads = ads + 1 end
    redis.call('ZADD', ids, 0, key)
  end
  if owner ~= '' then redis.call('ZADD', owned, 0, kind .. owner .. '\0' .. id) end
  if status == '0' then status = old_status else status_version = version end
  redis.call('HSET', stage_rows, key, table.concat({serial, version, status, status_version, owner}, ' ') .. '\n' .. body)
end

for _ = 1, n_lines do
  redis.call('RPUSH', stage_lines, ARGV[at] .. '\n' .. ARGV[at + 1])
  at = at + 2
end
redis.call('PEXPIRE', stage_rows, life_ms)
redis.call('PEXPIRE', stage_lines, life_ms)
return {'ok', ads, rows + n_puts}
