# Takes locks with the unchanged client of Ruby. Arguments: two servers of one mesh, host:port.
require "redis"
require "securerandom"

RELEASE = 'if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end'.freeze

def check(what)
  raise "wrong: #{caller(1, 1)}" unless what
end

one, two = ARGV.map { |server| Redis.new(url: "redis://#{server}") }
value = SecureRandom.uuid
check one.set("ruby", value, nx: true, px: 9000)
check !two.set("ruby", "other", nx: true, px: 9000)
check two.get("ruby") == value
check one.pttl("ruby").between?(1, 9000)
check one.eval(RELEASE, keys: ["ruby"], argv: ["other"]) == 0
digest = one.script(:load, RELEASE)
check one.pexpire("ruby", 9000)
check one.call("LOCKMESH.TOKEN", "ruby", value) > 10**15
check one.evalsha(digest, keys: ["ruby"], argv: [value]) == 1
check !two.exists?("ruby")
begin
  one.set("ruby", value, nx: true, px: 3_600_000)
  raise "an hour wasn't refused"
rescue Redis::CommandError => e
  check e.message.include?("longer than MaxTTL")
end
puts "ok"
