-- refund gives back what a take charged, in every limit under the time at which it was recorded. Units that have left
-- the window stay gone, and entries that have left stay until a charge drops them.
--
--   KEYS   for each limit, where its state lives
--   ARGV   the clock or '', cost, for each limit: 'l' or 'c', quota, window, resolution, At of the charge
--   reply  now; then 1, or -1 if nothing was done since a value has a newer format

local now, cost, grace = tonumber(ARGV[1]), tonumber(ARGV[2]), 86400000
if not now then
  local time = redis.call('TIME')
  now, grace = time[1] * 1000 + math.floor(time[2] / 1000), 0
end

-- fetch returns all of a small value, or head and areas of a large log, and its form: nil where there is nothing of
-- ours, false if it is of a newer format.
local function fetch(key)
  local s = redis.pcall('GETRANGE', key, '0', '135')
  if #s >= 5 and s:byte(1) == 0xF5 and s:byte(2) > 8 and s:byte(2) < 12 then return s, s:byte(2) - 8 end -- an error has no length
  return s, strange(s)
end

-- entry packs an entry.
local function entry(units, gap)
  if units == 1 then return put(2 * gap) end
  return put(2 * gap + 1) .. put(units)
end

-- reduce takes cost units out of the entry recorded at at, of those from p to stop, of which the first was at time.
-- It returns how many it took, the entries then, and the time of the first of them; nil if there is none at at.
local function reduce(at, from, p, stop, time)
  local first, start, before, before_units, before_gap = p, time, nil, nil, nil
  while p <= stop and time <= at do
    local n, gap, q = next_entry(from, p)
    if not n then return nil end
    if time == at then
      local gone, rest = math.min(n, cost), from:sub(q, stop)
      if gone < n then return gone, from:sub(first, p - 1) .. entry(n - gone, gap) .. rest, start end
      if not before then return gone, rest, time + gap end
      return gone, from:sub(first, before - 1) .. entry(before_units, before_gap + gap) .. rest, start
    end
    before, before_units, before_gap, p = p, n, gap, q
    time = time + gap
  end
  return nil
end

-- pop takes the last of the entries from p to stop, of which the first was at time. It returns its units, its time, and
-- the entries before it; nil if there is none.
local function pop(from, p, stop, time)
  local first, units, at, before = p, nil, nil, nil
  while p <= stop do
    local n, gap, q = next_entry(from, p)
    if not n then break end
    units, at, before, time, p = n, time, p, time + gap, q
  end
  return units, at, units and from:sub(first, before - 1)
end

-- life returns how long a key is to live whose newest charge was at newest: until that leaves the window.
local function life(newest, window) return math.max(0, newest + window - now) + grace end

-- store_small stores a log as a small one for as long as it matters.
local function store_small(key, window, newest, oldest, units, last, older)
  if life(newest, window) == 0 then return redis.call('DEL', key) end
  redis.call('PSETEX', key, life(newest, window), struct.pack('>I2i7I6I6I6', 0xF509, newest, newest - oldest, units, last) .. older)
end

local function refund_small(key, s, window, at)
  local _, newest, span, units, last = struct.unpack('>I2i7I6I6I6', s)
  local oldest = newest - span
  if at < newest then
    local gone, older, first = reduce(at, s, 28, #s, oldest)
    if gone then store_small(key, window, newest, first, units - gone, last, older) end
  elseif last > cost then
    store_small(key, window, newest, oldest, units - cost, last - cost, s:sub(28))
  else
    local n, time, older = pop(s, 28, #s, oldest)
    if not n then return redis.call('DEL', key) end
    store_small(key, window, time, oldest, units - last, n, older)
  end
end

-- pages_of gives access to runs of pages of a large log.
local function pages_of(key, log)
  -- read returns the bytes of n pages from the j-th oldest on.
  local function read(j, n)
    if n == 0 then return '' end
    local slot = (log.first + j) % log.cap
    local past = math.max(0, slot + n - log.cap)
    local s = redis.call('GETRANGE', key, 158 + slot * 64, 157 + (slot + n - past) * 64)
    if past > 0 then s = s .. redis.call('GETRANGE', key, 158, 157 + past * 64) end
    return s
  end

  -- write stores pages from the j-th oldest on.
  local function write(j, s)
    local slot = (log.first + j) % log.cap
    local fits = (log.cap - slot) * 64
    if s ~= '' then redis.call('SETRANGE', key, 158 + slot * 64, s:sub(1, fits)) end
    if #s > fits then redis.call('SETRANGE', key, 158, s:sub(fits + 1)) end
  end

  return read, write
end

-- open_page returns the time of a page's first entry, the running total before it, and its entries.
local function open_page(page)
  local time, total, size = struct.unpack('>i7I6I1', page)
  return time, total, page:sub(15, 14 + math.min(size, 50))
end

-- take_page removes the j-th oldest page, which is the first or the last, and opens it.
local function take_page(key, log, j)
  local page = pages_of(key, log)(j, 1)
  log.count = log.count - 1
  if j == 0 then log.first = (log.first + 1) % log.cap end
  return open_page(page)
end

-- shift returns pages with more added to their running totals.
local function shift(pages, more)
  local all = {}
  for p = 1, #pages, 64 do
    local time, total = struct.unpack('>i7I6', pages, p)
    all[#all + 1] = struct.pack('>i7I6', time, (total + more) % 2 ^ 48) .. pages:sub(p + 13, p + 63)
  end
  return table.concat(all)
end

-- refund_page takes units out of the j-th oldest page and tells whether there were any. Running totals change on the
-- nearer side of it, and a page that becomes empty is closed up from there.
local function refund_page(key, log, j, at)
  local read, write = pages_of(key, log)
  local page = read(j, 1)
  local time, total, entries = open_page(page)
  local gone, left, first = reduce(at, entries, 1, #entries, time)
  if not gone then return false end
  log.units, page = log.units - gone, ''
  if left ~= '' then page = struct.pack('>i7I6I1', first, total, #left) .. left .. ('\0'):rep(50 - #left) end
  if j < log.count / 2 then
    log.base = (log.base + gone) % 2 ^ 48
    local older = shift(read(0, j) .. page, gone)
    if page == '' then log.first, log.count = (log.first + 1) % log.cap, log.count - 1 end
    write(0, older)
  else
    log.back_total = (log.back_total - gone) % 2 ^ 48
    write(j, page .. shift(read(j + 1, log.count - j - 1), -gone))
    if page == '' then log.count = log.count - 1 end
  end
  return true
end

-- refund_newest takes units out of the newest entry. If none is left, the one before it is the newest then; if there is
-- none before it, log.last is nil.
local function refund_newest(key, log)
  if log.last > cost then
    log.last, log.units = log.last - cost, log.units - cost
    return
  end
  log.units = log.units - log.last
  if log.back == '' and log.count > 0 then
    log.back_time, log.back_total, log.back = take_page(key, log, log.count - 1)
  elseif log.back == '' then
    log.back_time, log.back, log.front = log.oldest, log.front, ''
  end
  log.last, log.newest, log.back = pop(log.back, 1, #log.back, log.back_time)
end

-- read_large returns a large log as a table; nil if it is none.
local function read_large(key, s)
  local head, log, span, back_size, dropped, size, _ = redis.call('GETRANGE', key, '136', '157'), {}
  if #head < 22 then return nil end
  _, log.newest, span, log.units, log.last, log.base, back_size, dropped, size = struct.unpack('>I2i7I6I6I6I6I1I1I1', s)
  log.back_time, log.back_total, log.first, log.count, log.cap = struct.unpack('>i7I6I3I3I3', head)
  if back_size > 50 or dropped > size or size > 50 or log.first >= log.cap or log.count > log.cap then return nil end
  if redis.call('STRLEN', key) ~= 158 + log.cap * 64 then return nil end
  log.oldest, log.back, log.front = log.newest - span, s:sub(37, 36 + back_size), s:sub(87 + dropped, 86 + size)
  return log
end

-- store_large stores a large log whose pages are stored already, as a small one if the back is all that is left of it.
local function store_large(key, window, log)
  if not log.last or life(log.newest, window) == 0 then return redis.call('DEL', key) end
  if log.front == '' and log.count > 0 then
    log.oldest, log.base, log.front = take_page(key, log, 0)
  end
  if log.front == '' then
    return store_small(key, window, log.newest, log.back_time, log.units, log.last, log.back)
  end
  redis.call('SETRANGE', key, '0', struct.pack('>I2i7I6I6I6I6I1I1I1', 0xF50A, log.newest, log.newest - log.oldest, log.units, log.last,
    log.base, #log.back, 0, #log.front) .. log.back .. ('\0'):rep(50 - #log.back) .. log.front .. ('\0'):rep(50 - #log.front)
    .. struct.pack('>i7I6I3I3I3', log.back_time, log.back_total, log.first, log.count, log.cap))
  redis.call('PEXPIRE', key, life(log.newest, window))
end

-- page_of returns which page may hold an entry at at: -1 for the front, their count for the back.
local function page_of(key, log, at)
  if at >= log.back_time then return log.count end
  local read, low, high = pages_of(key, log), -1, log.count - 1
  while low < high do
    local middle = math.floor((low + high + 1) / 2)
    if struct.unpack('>i7', read(middle, 1)) <= at then low = middle else high = middle - 1 end
  end
  return low
end

local function refund_large(key, s, window, at)
  local log = read_large(key, s)
  if not log then return end
  if at == log.newest then
    refund_newest(key, log)
    return store_large(key, window, log)
  end
  local j, gone, entries, first = page_of(key, log, at), nil, nil, nil
  if j == log.count then
    gone, entries, first = reduce(at, log.back, 1, #log.back, log.back_time)
    if gone then log.units, log.back, log.back_time = log.units - gone, entries, first end
  elseif j < 0 then
    gone, entries, first = reduce(at, log.front, 1, #log.front, log.oldest)
    if gone then log.units, log.front, log.oldest, log.base = log.units - gone, entries, first, (log.base + gone) % 2 ^ 48 end
  else
    gone = refund_page(key, log, j, at)
  end
  if gone then store_large(key, window, log) end
end

local function refund_counter(key, s, window, at)
  local _, state, read = counter(get, put, strange)
  local start, prev, cur = read(s, window)
  if at == start then
    cur = math.max(0, cur - cost)
  elseif start and at == start - window then
    prev = math.max(0, prev - cost)
  else
    return
  end
  if cur == 0 and prev == 0 then return redis.call('DEL', key) end
  local life, value = state(window, start, prev, cur, now, grace)
  if life == '0' then redis.call('DEL', key) else redis.call('PSETEX', key, life, value) end
end

local function refund_log(key, s, form, window, at)
  if #s < 27 or form == 2 and #s < 136 then return end
  local _, newest, span, units, last = struct.unpack('>I2i7I6I6I6', s)
  if last < 1 or units < last or newest > 2 ^ 52 or newest < -2 ^ 52 then return end
  if at > newest or at < newest - span or now - at >= window then return end
  if form == 1 then refund_small(key, s, window, at) else refund_large(key, s, window, at) end
end

local values, forms = {}, {}
for l, key in ipairs(KEYS) do
  values[l], forms[l] = fetch(key)
  if forms[l] == false then return {now, -1} end
end
for l, key in ipairs(KEYS) do
  local a = 5 * l - 2
  local counts, window, at = ARGV[a] == 'c', tonumber(ARGV[a + 2]), tonumber(ARGV[a + 4])
  if forms[l] == 3 and counts then
    refund_counter(key, values[l], window, at)
  elseif (forms[l] == 1 or forms[l] == 2) and not counts then
    refund_log(key, values[l], forms[l], window, at)
  end
end
return {now, 1}
