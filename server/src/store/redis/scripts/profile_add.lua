-- Adds exposures (after profile.lua, whose keys and first arguments it has).
--
-- ARGV[5]     what the hash was called when the caller knew all of it; empty: it does not
-- ARGV[6]     what it is called once it has changed; empty: nothing
-- ARGV[7...]  an advertiser and its new records in one string, again and again
-- Reply       where it is still called so, and all of these are in it now, as the caller expects:
--             1 where it has changed, 0 where it has not; else the whole hash, as HGETALL
--
-- What is there already is not added again, so this may be told twice; what is held becomes an
-- exposure for good where one is told. Left out are exposures of
-- before the visitor was forgotten, those that no cap counts any more, and those that find no
-- room.
local is_expected = ARGV[5] ~= '' and redis.call('HGET', key, 'v') == ARGV[5]
if ARGV[6] ~= '' then new_name = ARGV[6] end
for at = 7, #ARGV, 2 do
  local advertiser, records = ARGV[at], ARGV[at + 1]
  for from = 1, #records, RECORD_BYTES do
    local is_there = add(advertiser, records:sub(from, from + RECORD_BYTES - 1))
    is_expected = is_expected and is_there
  end
end
if not is_expected then return save() end
return write() and 1 or 0
