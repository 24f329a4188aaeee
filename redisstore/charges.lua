-- charges lists what counts, of each limit the oldest first.
--
--   KEYS   for each limit, where its state lives
--   ARGV   the clock or '', how many charges of a limit at most, for each limit: 'l' or 'c', window
--   reply  now; then 1, or -1 alone if a value has a newer format; then for each limit how many charges follow, and of
--          each its time and its units: of a counter those of the window before and of the current one
--
-- It reads all that is stored of a key, which is for people who look into one.

local now, most = tonumber(ARGV[1]), tonumber(ARGV[2])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end

local reply = {now, 1}

-- add appends a charge to those of a limit, which begin at head with their number.
local function add(head, time, units)
  if reply[head] == most then return end
  reply[head] = reply[head] + 1
  reply[#reply + 1], reply[#reply + 2] = time, units
end

-- list adds the entries from p to stop that were recorded after edge; the first of them was at time.
local function list(head, s, p, stop, time, edge)
  while p <= stop and reply[head] < most do
    local units, gap, q = next_entry(s, p)
    if not units then return end
    if time > edge then add(head, time, units) end
    time, p = time + gap, q
  end
end

-- list_pages adds what a large log has in its front, its pages and its back.
local function list_pages(head, s, oldest, edge)
  if #s < 158 then return end
  local back_size, dropped, size = s:byte(34, 36)
  local back_time, _, first, count, cap = struct.unpack('>i7I6I3I3I3', s, 137)
  if first >= cap or count > cap or #s < 158 + cap * 64 or back_size > 50 or size > 50 then return end
  list(head, s, 87 + dropped, 86 + size, oldest, edge)
  for j = 0, count - 1 do
    local at = 159 + (first + j) % cap * 64
    local after = j + 1 < count and struct.unpack('>i7', s, 159 + (first + j + 1) % cap * 64) or edge + 1
    if reply[head] == most then return end
    if after > edge then
      local time, _, used = struct.unpack('>i7I6I1', s, at)
      list(head, s, at + 14, at + 13 + math.min(used, 50), time, edge)
    end
  end
  list(head, s, 37, 36 + back_size, back_time, edge)
end

local function list_log(head, s, window)
  local form = s:byte(2) - 8
  if #s < 27 or form ~= 1 and form ~= 2 then return end
  local _, newest, span, units, last = struct.unpack('>I2i7I6I6I6', s)
  local edge = now - window
  if last < 1 or units < last or newest <= edge then return end
  if form == 1 then list(head, s, 28, #s, newest - span, edge) else list_pages(head, s, newest - span, edge) end
  add(head, newest, last)
end

local function list_counter(head, s, window)
  local ok, start, prev, cur = counter(get, put, strange)(s, window, now)
  if not ok then return end
  if prev > 0 then add(head, start - window, prev) end
  if cur > 0 then add(head, start, cur) end
end

for l, key in ipairs(KEYS) do
  local s = redis.pcall('GETRANGE', key, '0', '-1')
  if strange(s) == false then return {now, -1} end
  reply[#reply + 1] = 0
  local head, window = #reply, tonumber(ARGV[2 * l + 2])
  if type(s) == 'string' and #s >= 5 and s:byte(1) == 0xF5 then
    if ARGV[2 * l + 1] == 'c' then list_counter(head, s, window) else list_log(head, s, window) end
  end
end
return reply
