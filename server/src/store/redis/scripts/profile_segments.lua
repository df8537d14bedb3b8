-- Changes segments (after profile.lua, whose keys and first arguments it has).
--
-- ARGV[5]     segments in one profile at most
-- ARGV[6]     how many are added
-- ARGV[7...]  a name and when it lapses, in microseconds, for each; then the names to take away
-- Reply       1 and the whole hash, as HGETALL; or 0 where there would be too many: nothing has
--             changed then
--
-- The field `s` holds `<when it lapses> <name>` and a line feed for each. Names go first and are
-- added then; what has lapsed is left out. The hash lives at least as long as its segments.
local segments_max, added = tonumber(ARGV[5]), tonumber(ARGV[6])
local segments = {}
for expires_us, name in (redis.call('HGET', key, 's') or ''):gmatch('(%d+) ([^\n]*)\n') do
  segments[name] = expires_us
end
for at = 7 + 2 * added, #ARGV do segments[ARGV[at]] = nil end
for at = 7, 6 + 2 * added, 2 do segments[ARGV[at]] = ARGV[at + 1] end

local lines = {}
for name, expires_us in pairs(segments) do
  local left_us = tonumber(expires_us) - now_us
  if left_us > 0 then
    lines[#lines + 1] = expires_us .. ' ' .. name .. '\n'
    life_ms = math.max(life_ms, math.ceil(left_us / 1000))
  end
end
if #lines > segments_max then return { 0 } end
redis.call('HDEL', key, 'v')
if #lines > 0 then
  redis.call('HSET', key, 's', table.concat(lines))
else
  redis.call('HDEL', key, 's')
end
return { 1, save() }
