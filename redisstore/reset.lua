-- reset forgets a key in every limit.
--
--   KEYS   for each limit, where its state lives
--   ARGV   the clock or ''
--   reply  now; then 1, or -1 if nothing was done since a value has a newer format

local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
for _, key in ipairs(KEYS) do
  if strange(redis.pcall('GETRANGE', key, '0', '1')) == false then return {now, -1} end
end
for _, key in ipairs(KEYS) do redis.call('DEL', key) end
return {now, 1}
