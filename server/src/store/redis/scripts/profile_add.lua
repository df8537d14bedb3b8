-- Adds exposures (after profile.lua, whose keys and first arguments it has).
--
-- ARGV[5...]  an advertiser and its new records in one string, again and again
-- Reply       the whole hash, as HGETALL
--
-- What is there already is not added again, so this may be told twice; what is held becomes an
-- exposure for good where one is told. Left out are exposures of
-- before the visitor was forgotten, those that no cap counts any more, and those that find no
-- room.
for at = 5, #ARGV, 2 do
  local advertiser, records = ARGV[at], ARGV[at + 1]
  for from = 1, #records, RECORD_BYTES do
    add(advertiser, records:sub(from, from + RECORD_BYTES - 1))
  end
end
return save()
