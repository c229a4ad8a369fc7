// Command benchproduce repeatedly sends one batch to a broker over one connection, and prints the
// broker's CPU time; see docs/internals/bench/append.md. The broker must run on this machine, and
// its topic must exist.
package main

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/record"
)

// produceVersion is the version of the produce requests. It is the last version without tagged
// fields (flexible versions), which would make the headers of requests and responses more complex.
const produceVersion = 8

// load describes the requests to send.
type load struct {
	address, topic       string
	pid                  int // process id of the broker
	recordBytes, records int // bytes per record value, records per batch
	batches, inFlight    int
	idempotent           bool
}

func main() {
	var l load
	flag.StringVar(&l.address, "broker", "127.0.0.1:9092", "address of the broker")
	flag.StringVar(&l.topic, "topic", "events", "topic to send to, partition 0")
	flag.IntVar(&l.pid, "pid", 0, "process id of the broker")
	flag.IntVar(&l.recordBytes, "record-bytes", 1024,
		"size of a record's value in bytes; it consists of random capital letters")
	flag.IntVar(&l.records, "records", 62, "records per batch")
	flag.IntVar(&l.batches, "batches", 5000, "batches to send")
	flag.IntVar(&l.inFlight, "in-flight", 5, "maximum number of requests without a response")
	flag.BoolVar(&l.idempotent, "idempotent", false,
		"send sequence numbers, as an idempotent producer does")
	flag.Parse()
	if err := l.run(); err != nil {
		fmt.Fprintln(os.Stderr, "benchproduce:", err)
		os.Exit(1)
	}
}

// run sends the batches and prints the result as one line.
func (l *load) run() error {
	frames, err := l.frames()
	if err != nil {
		return err
	}
	socket, err := new(net.Dialer).DialContext(context.Background(), "tcp", l.address)
	if err != nil {
		return err
	}
	defer func() { _ = socket.Close() }()
	before, err := cpuTime(l.pid)
	if err != nil {
		return err
	}
	begin := time.Now()
	if err := l.exchange(socket, frames); err != nil {
		return err
	}
	took := time.Since(begin)
	after, err := cpuTime(l.pid)
	if err != nil {
		return err
	}
	micros := (after - before).Seconds() * 1e6 / float64(l.batches)
	fmt.Printf("%d x %d B, %d in flight: %.1f us of broker CPU per batch, %.3f per record; "+
		"%.0f batches/s\n", l.records, l.recordBytes, l.inFlight, micros,
		micros/float64(l.records), float64(l.batches)/took.Seconds())
	return nil
}

// exchange sends l.batches requests, and reads one response for each request. It uses the frames in
// rotation.
func (l *load) exchange(socket net.Conn, frames [][]byte) error {
	slots := make(chan struct{}, l.inFlight)
	failed := make(chan error, 1)
	go func() {
		for i := range l.batches {
			slots <- struct{}{}
			if _, err := socket.Write(frames[i%len(frames)]); err != nil {
				failed <- err
				_ = socket.Close() // ends the loop that reads responses
				return
			}
		}
	}()
	for range l.batches {
		if err := readResponse(socket); err != nil {
			select {
			case cause := <-failed:
				err = cause
			default:
			}
			return err
		}
		<-slots
	}
	return nil
}

// readResponse reads one response. It returns an error if the response contains an error code.
func readResponse(socket io.Reader) error {
	var size [4]byte
	if _, err := io.ReadFull(socket, size[:]); err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n < 4 || n > 1<<20 {
		return errors.New("read response: invalid size")
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(socket, body); err != nil {
		return err
	}
	response := kmsg.NewPtrProduceResponse()
	response.SetVersion(produceVersion)
	if err := response.ReadFrom(body[4:]); err != nil {
		return err
	}
	for _, topic := range response.Topics {
		for _, p := range topic.Partitions {
			if p.ErrorCode != 0 {
				return fmt.Errorf("produce to partition %d: error code %d", p.Partition, p.ErrorCode)
			}
		}
	}
	return nil
}

// frames returns encoded requests. Without sequence numbers, it returns one request that can be
// sent repeatedly. With sequence numbers, it returns all l.batches requests.
func (l *load) frames() ([][]byte, error) {
	count := 1
	id := record.Identity{ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1,
		LastOffsetDelta: int32(l.records - 1), LeaderEpoch: -1}
	if l.idempotent {
		count = l.batches
		id.ProducerID, id.ProducerEpoch = time.Now().UnixNano(), 0
	}
	random := rand.New(rand.NewPCG(1, 2))
	builder := record.NewBuilder(compress.None, compress.LevelDefault)
	frames := make([][]byte, count)
	for i := range frames {
		if l.idempotent {
			id.BaseSequence = int32(i * l.records)
		}
		builder.Reset(id)
		for n := range l.records {
			value := make([]byte, l.recordBytes)
			for index := range value {
				value[index] = byte('A' + random.IntN(26))
			}
			builder.Add(&record.Record{Offset: int64(n), Timestamp: time.Now().UnixMilli(),
				Value: value})
		}
		batch, err := builder.Build(nil)
		if err != nil {
			return nil, err
		}
		frames[i] = l.frame(batch)
	}
	return frames, nil
}

// frame encodes a produce request that contains one batch.
func (l *load) frame(batch []byte) []byte {
	req := kmsg.NewPtrProduceRequest()
	req.SetVersion(produceVersion)
	req.Acks, req.TimeoutMillis = -1, 30_000
	topic := kmsg.NewProduceRequestTopic()
	topic.Topic = l.topic
	partition := kmsg.NewProduceRequestTopicPartition()
	partition.Records = batch
	topic.Partitions = append(topic.Partitions, partition)
	req.Topics = append(req.Topics, topic)
	frame := kbin.AppendInt16(make([]byte, 4), req.Key())
	frame = kbin.AppendInt16(frame, produceVersion)
	frame = kbin.AppendInt32(frame, 1)
	frame = kbin.AppendNullableString(frame, nil)
	frame = req.AppendTo(frame)
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
	return frame
}

// cpuTime returns the CPU time of a process's threads. It reads schedstat, because /proc/PID/stat
// has a resolution of only a hundredth of a second. The result does not include exited threads, but
// a working broker's threads do not exit.
func cpuTime(pid int) (time.Duration, error) {
	paths, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/schedstat")
	if err != nil || len(paths) == 0 {
		return 0, fmt.Errorf("read CPU time of process %d: no schedstat in /proc", pid)
	}
	total := time.Duration(0)
	for _, path := range paths {
		account, err := os.ReadFile(path)
		if err != nil {
			continue // the thread has exited
		}
		var ran time.Duration
		if _, err := fmt.Sscan(string(account), &ran); err != nil {
			return 0, fmt.Errorf("read %s: %w", path, err)
		}
		total += ran
	}
	return total, nil
}
