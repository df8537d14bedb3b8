#!lua
-- A node offers to fill a store that came back empty; the one with the newest catalogue does.
--
-- KEYS  head, offers
-- ARGV  node, version, how long to wait for others in us, how old an offer may be in us, life of
--       the offers in ms
--
-- Replies 1 where this node should fill it now, else 0.
local head, offers = KEYS[1], KEYS[2]
local node, version = ARGV[1], tonumber(ARGV[2])
local wait_us, age_us = tonumber(ARGV[3]), tonumber(ARGV[4])
if redis.call('HEXISTS', head, 'version') == 1 then return 0 end
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local first = tonumber(redis.call('HGET', offers, '') or now)
redis.call('HSET', offers, '', string.format('%.0f', first), node, string.format('%.0f %.0f', version, now))
redis.call('PEXPIRE', offers, ARGV[5])
if now - first < wait_us then return 0 end
local best, best_version = node, version
local all = redis.call('HGETALL', offers)
for i = 1, #all, 2 do
  local other, at = string.match(all[i + 1], '^(%d+) (%d+)$')
  if other and now - tonumber(at) <= age_us then
    other = tonumber(other)
    if other > best_version or (other == best_version and all[i] < best) then
      best, best_version = all[i], other
    end
  end
end
return best == node and 1 or 0
