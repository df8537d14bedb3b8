-- Frees the place that a showing holds (after profile.lua, whose keys and first arguments it has).
--
-- ARGV[5]  the advertiser
-- ARGV[6]  a record of the showing, of which the name counts
-- Reply    the whole hash, as HGETALL
--
-- What has become an exposure for good stays, and where there is nothing nothing happens.
local advertiser, record = ARGV[5], ARGV[6]
local place = place_of(advertiser, record)
if place and is_held(list_of(advertiser)[place]) then
  table.remove(list_of(advertiser), place)
  is_changed[advertiser] = true
end
return save()
