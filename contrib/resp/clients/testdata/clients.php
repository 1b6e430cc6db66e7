<?php
// Takes locks with the unchanged client of PHP. Arguments: two servers of one mesh, host:port.
declare(strict_types=1);

const RELEASE = 'if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end';

function connectTo(string $server): Redis
{
    [$host, $port] = explode(':', $server);
    $redis = new Redis();
    $redis->connect($host, (int) $port);
    return $redis;
}

function check(bool $what): void
{
    if (!$what) {
        throw new Exception('wrong');
    }
}

[$one, $two] = [connectTo($argv[1]), connectTo($argv[2])];
$value = bin2hex(random_bytes(16));
check($one->set('php', $value, ['nx', 'px' => 9000]) === true);
check($two->set('php', 'other', ['nx', 'px' => 9000]) === false);
check($two->get('php') === $value);
check($one->pttl('php') > 0 && $one->pttl('php') <= 9000);
check($one->eval(RELEASE, ['php', 'other'], 1) === 0);
check($one->pexpire('php', 9000));
check($one->rawCommand('LOCKMESH.TOKEN', 'php', $value) > 10 ** 15);
check($one->evalSha(sha1(RELEASE), ['php', $value], 1) === 1);
check($two->exists('php') === 0);
try {
    $one->set('php', $value, ['nx', 'px' => 3600000]);
    check(false);
} catch (RedisException $e) {
    check(str_contains($e->getMessage(), 'longer than MaxTTL'));
}
echo "ok\n";
