// Package steps contains the code that the Go programs share: the list of steps in program_test.go,
// and the output.
package steps

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
)

// Begin is the timestamp of the first record in milliseconds.
const Begin = 1_700_000_000_000

// Client is a client library that executes the steps. A returned error ends the program.
type Client interface {
	// Administer lists the topics, creates the topic made, describes its settings and deletes it.
	Administer(made string) (topics []string, settings map[string]string, err error)
	// Produce sends records with a codec. The codec "" means the last record, which is sent without
	// idempotence.
	Produce(codec string, records []Record) error
	// SeekTo sets the position for reading to the offset.
	SeekTo(offset int64) error
	// OffsetAt returns the offset of the first record whose timestamp is at least the given one.
	OffsetAt(timestamp int64) (int64, error)
	// Next returns the next record, or false if no record arrives within the timeout.
	Next(timeout time.Duration) (Record, bool, error)
	// BeginTransaction starts a producer with the transactional id.
	BeginTransaction(id string) error
}

// Record is a record that a program sends or has received.
type Record struct {
	Offset, Timestamp int64
	Key, Value        []byte // nil is null
	Headers           map[string]string
}

// Main executes the steps with a client. The module is the import path of the client library, and
// plain means that the library has no idempotent producer.
func Main(module string, plain bool, open func(bootstrap, topic string) (Client, error)) {
	say("client", map[string]any{"version": version(module), "plain": plain})
	client, err := open(os.Args[1], os.Args[2])
	if err == nil {
		err = execute(client, os.Args[2], os.Args[3])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func execute(client Client, topic, idleMs string) error {
	topics, settings, err := client.Administer(topic + "-made")
	if err != nil {
		return fmt.Errorf("administer topics: %w", err)
	}
	say("list", map[string]any{"topics": topics})
	say("describe", map[string]any{"configs": settings})
	say("deleted", nil)
	number := int64(0)
	for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		headers := map[string]string{"codec": codec}
		key := []byte(codec + "-key")
		records := []Record{
			{Key: key, Value: []byte(strings.Repeat(codec+" ", 100)), Headers: headers},
			{Key: key, Headers: headers},
			{Value: []byte(strings.Repeat(codec+" without a key ", 100)), Headers: headers},
		}
		for i := range records {
			records[i].Timestamp = Begin + number*1000
			number++
		}
		if err := client.Produce(codec, records); err != nil {
			return fmt.Errorf("produce with %s: %w", codec, err)
		}
	}
	if err := consume(client, number, idleMs); err != nil {
		return err
	}
	started := time.Now()
	refusal := ""
	if err := client.BeginTransaction(topic + "-id"); err != nil {
		refusal = err.Error()
	}
	say("transaction", map[string]any{"seconds": time.Since(started).Seconds(), "error": refusal})
	return nil
}

func consume(client Client, number int64, idleMs string) error {
	if err := read(client, "beginning", 0, number); err != nil {
		return err
	}
	at, err := client.OffsetAt(Begin + 4*1000 - 500)
	if err == nil {
		err = read(client, "timestamp", at, number-at)
	}
	if err == nil {
		err = client.SeekTo(number)
	}
	if err != nil {
		return err
	}
	idle, err := strconv.Atoi(idleMs)
	if err != nil {
		return err
	}
	say("idle", nil)
	if _, received, err := client.Next(time.Duration(idle) * time.Millisecond); err != nil {
		return fmt.Errorf("wait at the end: %w", err)
	} else if received {
		return fmt.Errorf("wait at the end: received a record that no producer sent")
	}
	say("idled", nil)
	last := Record{Key: []byte("last"), Value: []byte("while the consumer waits"),
		Timestamp: Begin + number*1000}
	if err := client.Produce("", []Record{last}); err != nil {
		return fmt.Errorf("produce the last record: %w", err)
	}
	return print(client, "end", 1)
}

func read(client Client, source string, offset, count int64) error {
	if err := client.SeekTo(offset); err != nil {
		return fmt.Errorf("seek %d: %w", offset, err)
	}
	return print(client, source, count)
}

func print(client Client, source string, count int64) error {
	for range count {
		r, received, err := client.Next(30 * time.Second)
		if err != nil || !received {
			return fmt.Errorf("read from the %s: no record: %w", source, err)
		}
		if r.Headers == nil {
			r.Headers = map[string]string{}
		}
		say("record", map[string]any{"source": source, "offset": r.Offset,
			"timestamp": r.Timestamp, "key": text(r.Key), "value": text(r.Value),
			"headers": r.Headers})
	}
	return nil
}

func text(value []byte) *string {
	if value == nil {
		return nil
	}
	s := string(value)
	return &s
}

func say(step string, fields map[string]any) {
	line := map[string]any{"step": step}
	for name, value := range fields {
		line[name] = value
	}
	text, err := json.Marshal(line)
	if err != nil {
		panic(err) // impossible: the fields contain only values that JSON can encode
	}
	fmt.Println(string(text))
}

// version returns the last element of the module's path and its version in this binary.
func version(module string) string {
	info, _ := debug.ReadBuildInfo()
	for _, dep := range info.Deps {
		if dep.Path == module {
			return module[strings.LastIndex(module, "/")+1:] + " " + dep.Version
		}
	}
	return module
}
