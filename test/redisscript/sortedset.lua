-- What the scripts are measured against: a sliding log as a sorted set, a member for each unit, which answers the
-- same questions: the verdict, now, the newest time, the units that count, and the unit that has to leave first.
-- Its arguments are what take has: 'tl', quota, window, and the cost if that is not 1.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local key, quota, window, cost = KEYS[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4] or 1)
redis.call('ZREMRANGEBYSCORE', key, '-inf', now - window)
local used = redis.call('ZCARD', key)
local newest = redis.call('ZRANGE', key, -1, -1, 'WITHSCORES')[2]
if used + cost > quota then
  local rank = used + cost - quota - 1
  return {0, now, tonumber(newest or 0), used, tonumber(redis.call('ZRANGE', key, rank, rank, 'WITHSCORES')[2])}
end
local at = newest and math.max(now, tonumber(newest)) or now
local members = {}
for i = 1, cost do members[2 * i - 1], members[2 * i] = at, now .. ':' .. used + i end
redis.call('ZADD', key, unpack(members))
redis.call('PEXPIRE', key, at == now and ARGV[3] or at + window - now)
return {1, now, at, used + cost, 0}
