// A checkout in Go: publishes how calls ended to Kafka, and asks Redis whether a channel is blocked.
//
//	cd examples/go
//	go run . publish OK ALIPAY
//	go run . ask ALIPAY
//
// FUSELINE_KAFKA_BROKERS (127.0.0.1:9092), FUSELINE_KAFKA_TOPIC (fuseline.outcomes), FUSELINE_REDIS_URL, FUSELINE_PREFIX
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/twmb/franz-go/pkg/kgo"
)

type outcome struct {
	Channel    string `json:"channel"`
	Success    bool   `json:"success"`
	DurationMs int    `json:"durationMs"`
	Code       string `json:"code"`
	Source     string `json:"source"`
}

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, words []string) error {
	switch {
	case len(words) > 2 && words[0] == "publish":
		return publish(ctx, words[1], words[2:])
	case len(words) == 2 && words[0] == "ask":
		blocked, err := isBlocked(ctx, words[1])
		if err == nil {
			fmt.Println(map[bool]string{true: "blocked", false: "in use"}[blocked])
		}
		return err
	default:
		return fmt.Errorf("publish CODE CHANNEL... | ask CHANNEL")
	}
}

// publish sends one outcome per channel named. Any code but OK is a failure.
func publish(ctx context.Context, code string, channels []string) error {
	// franz-go's defaults are what we want: idempotent, acks from all, and the partition by murmur2 of the key, which keeps a
	// channel's order. With kafka-go set Balancer: kafka.Murmur2Balancer{}.
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(env("FUSELINE_KAFKA_BROKERS", "127.0.0.1:9092"), ",")...),
		kgo.DefaultProduceTopic(env("FUSELINE_KAFKA_TOPIC", "fuseline.outcomes")),
	)
	if err != nil {
		return err
	}
	defer client.Close()

	records := make([]*kgo.Record, 0, len(channels))
	for _, channel := range channels {
		value, err := json.Marshal(outcome{channel, code == "OK", 120, code, "checkout-go"})
		if err != nil {
			return err
		}
		records = append(records, &kgo.Record{Key: []byte(channel), Value: value})
	}
	// A service uses client.Produce and does not wait: publishing is fire and forget.
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for _, result := range client.ProduceSync(ctx, records...) {
		if result.Err != nil {
			return result.Err
		}
		fmt.Printf("%s partition %d\n", result.Record.Key, result.Record.Partition)
	}
	return nil
}

// isBlocked: a channel is blocked exactly while its key exists. When Redis does not answer in time, treat it as in use.
func isBlocked(ctx context.Context, channel string) (bool, error) {
	options, err := redis.ParseURL(env("FUSELINE_REDIS_URL", "redis://127.0.0.1:6379"))
	if err != nil {
		return false, err
	}
	client := redis.NewClient(options)
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	found, err := client.Exists(ctx, os.Getenv("FUSELINE_PREFIX")+"channel_blocked:{"+channel+"}").Result()
	return found == 1, err
}

func env(name, otherwise string) string {
	if value, ok := os.LookupEnv(name); ok {
		return value
	}
	return otherwise
}
