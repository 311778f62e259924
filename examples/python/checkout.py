"""A checkout in Python: publishes how calls ended to Kafka, and asks Redis whether a channel is blocked.

    pip install -r examples/python/requirements.txt
    python examples/python/checkout.py publish OK ALIPAY
    python examples/python/checkout.py ask ALIPAY

FUSELINE_KAFKA_BROKERS (127.0.0.1:9092), FUSELINE_KAFKA_TOPIC (fuseline.outcomes), FUSELINE_REDIS_URL, FUSELINE_PREFIX
"""

import json
import os
import sys

from confluent_kafka import Producer
from redis import Redis

TOPIC = os.environ.get("FUSELINE_KAFKA_TOPIC", "fuseline.outcomes")


def publish(code: str, channels: list[str]) -> None:
    """One outcome per channel named. Any code but OK is a failure."""
    producer = Producer(
        {
            "bootstrap.servers": os.environ.get("FUSELINE_KAFKA_BROKERS", "127.0.0.1:9092"),
            # Without it librdkafka chooses partitions by CRC32: a channel's outcomes from here and from elsewhere
            # would lie in two partitions, and lose their order.
            "partitioner": "murmur2_random",
            "enable.idempotence": True,
            "linger.ms": 5,
        }
    )
    failures = []

    def on_delivery(error, record) -> None:
        if error is not None:
            failures.append(error)
        else:
            print(f"{record.key().decode()} partition {record.partition()}")

    for channel in channels:
        outcome = {
            "channel": channel,
            "success": code == "OK",
            "durationMs": 120,
            "code": code,
            "source": "checkout-python",
        }
        producer.produce(TOPIC, key=channel, value=json.dumps(outcome), on_delivery=on_delivery)
    # A service calls poll(0) now and then, and flush() only when it ends: publishing is fire and forget.
    if producer.flush(30) > 0 or failures:
        sys.exit(f"not all outcomes were taken: {failures}")


def is_blocked(channel: str) -> bool:
    """A channel is blocked exactly while its key exists. When Redis does not answer in time, treat it as in use."""
    url = os.environ.get("FUSELINE_REDIS_URL", "redis://127.0.0.1:6379")
    prefix = os.environ.get("FUSELINE_PREFIX", "")
    with Redis.from_url(url, socket_timeout=1, socket_connect_timeout=1) as redis:
        return redis.exists(f"{prefix}channel_blocked:{{{channel}}}") == 1


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["publish", code, *channels] if channels:
            publish(code, channels)
        case ["ask", channel]:
            print("blocked" if is_blocked(channel) else "in use")
        case _:
            sys.exit("publish CODE CHANNEL... | ask CHANNEL")
