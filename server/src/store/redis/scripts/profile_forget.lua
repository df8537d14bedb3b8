-- Forgets a visitor (after profile.lua, whose keys and first arguments it has).
--
-- ARGV[5]  until when, in microseconds
-- Reply    1 where anything was held, else 0
--
-- Everything goes. What stays is the instant, for as long as an exposure of before could be told
-- late, so that it makes nothing anew.
local held = 0
for _, field in ipairs(redis.call('HKEYS', key)) do
  if field ~= 'f' and field ~= 'v' then held = 1 end
end
redis.call('DEL', key)
redis.call('HSET', key, 'f', string.format('%.0f', math.max(forgotten_us, tonumber(ARGV[5]))))
redis.call('PEXPIRE', key, life_ms)
return held
