#!lua
-- Makes a staged change visible, in one step, whatever its size: readers look into the overlay
-- before they look into the objects, until it is folded in.
--
-- KEYS  head, overlay, overlay_lines, stage_rows, stage_lines, log, changes, lines, secrets
-- ARGV  base version, new version, change of the number of ads, forced (0 or 1), mark, prefix,
--       at_us, id and record of the change's own line, how many rows and lines were staged; then,
--       where a store that came back empty is refilled, five serials, and name and value of each
--       secret
--
-- Replies {"ok", version}, {"conflict", head} or {"fold"}; {"lapsed"} where the stage is gone.
local head, overlay, overlay_lines, stage_rows, stage_lines = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local log, changes, lines, secrets = KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local base, version, ads, forced, mark, prefix = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local at_us, id, record = ARGV[7], ARGV[8], ARGV[9]

-- A key that was made something else by hand must not stop us halfway.
for at, kind in ipairs({'hash', 'hash', 'list', 'hash', 'list', 'hash', 'zset', 'zset', 'hash'}) do
  local is = redis.call('TYPE', KEYS[at]).ok
  if is ~= 'none' and is ~= kind then return redis.error_reply('WRONGTYPE ' .. KEYS[at] .. ' is a ' .. is) end
end

local now = redis.call('HGET', head, 'version') or '0'
if now ~= base then return {'conflict', now} end
if redis.call('HEXISTS', head, 'overlay') == 1 then return {'fold'} end
-- A part may be lost: it lapsed, or a failover did not know of it.
if redis.call('HLEN', stage_rows) ~= tonumber(ARGV[10]) then return {'lapsed'} end
if redis.call('LLEN', stage_lines) ~= tonumber(ARGV[11]) then return {'lapsed'} end
if redis.call('EXISTS', stage_rows) == 1 then
  redis.call('RENAME', stage_rows, overlay)
  redis.call('PERSIST', overlay)
end
if redis.call('EXISTS', stage_lines) == 1 then
  redis.call('RENAME', stage_lines, overlay_lines)
  redis.call('PERSIST', overlay_lines)
end
redis.call('HSET', head, 'version', version, 'mark', mark, 'overlay', version, 'overlay_at', at_us)
redis.call('HINCRBY', head, 'ads', ads)
if forced == '1' then redis.call('HSET', head, 'forced_version', version) end
redis.call('HSET', log, version .. '.0', record)
redis.call('ZADD', lines, 0, id .. '\0' .. string.format('%016.0f.%08.0f', tonumber(version), 0))
redis.call('ZADD', changes, version, version .. ' ' .. mark .. ' ' .. id)
if #ARGV > 11 then
  for kind = 1, 5 do redis.call('HSET', head, 'serial:' .. kind, ARGV[11 + kind]) end
  -- Who stands at an older version has to load everything.
  redis.call('HSET', head, 'removed_from', version)
  for at = 17, #ARGV, 2 do redis.call('HSET', secrets, ARGV[at], ARGV[at + 1]) end
end
redis.call('PUBLISH', prefix .. ':hint', version)
return {'ok', version}
