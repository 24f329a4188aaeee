-- bans keeps a list as a whole: a version, and text behind it.
--
--   KEYS   where the list lives
--   ARGV   the version that the caller has; to write one: its life in milliseconds, 0 for an empty list, and its text
--   reply  now, in milliseconds since the Unix epoch; the version that is there, 0 for no list; then 1 if the text was
--          written, which it is if nobody else wrote since. Otherwise 0, and if the versions differ the length of the
--          text that is there, and the text, six bytes a number
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local head = redis.call('GETRANGE', KEYS[1], '0', '5')
local version = #head == 6 and struct.unpack('>I6', head) or 0
if version == tonumber(ARGV[1]) then
  if not ARGV[2] then return {now, version, 0} end
  if ARGV[2] == '0' then
    redis.call('DEL', KEYS[1])
    return {now, 0, 1}
  end
  version = math.max(now, version + 1)
  redis.call('PSETEX', KEYS[1], ARGV[2], struct.pack('>I6', version) .. ARGV[3])
  return {now, version, 1}
end
local text = redis.call('GETRANGE', KEYS[1], '6', '-1')
local reply = {now, version, 0, #text}
text = text .. ('\0'):rep(5)
for p = 1, reply[4], 6 do reply[#reply + 1] = struct.unpack('>I6', text, p) end
return reply
