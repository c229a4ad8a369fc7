package main

import (
	"bytes"
	"encoding/binary"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/test/kit/await"
)

// encodeResponse encodes a produce response with an error code.
func encodeResponse(code int16) []byte {
	response := kmsg.NewPtrProduceResponse()
	response.SetVersion(produceVersion)
	topic := kmsg.NewProduceResponseTopic()
	partition := kmsg.NewProduceResponseTopicPartition()
	partition.ErrorCode = code
	topic.Partitions = append(topic.Partitions, partition)
	response.Topics = append(response.Topics, topic)
	frame := response.AppendTo(make([]byte, 8))
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
	return frame
}

func TestErrorCodeInResponseIsReturned(t *testing.T) {
	if err := readResponse(bytes.NewReader(encodeResponse(0))); err != nil {
		t.Error(err)
	}
	if err := readResponse(bytes.NewReader(encodeResponse(45))); err == nil ||
		!strings.Contains(err.Error(), "error code 45") {
		t.Errorf("response with error code 45: got error %v, want it to contain the code", err)
	}
	for _, bad := range [][]byte{nil, {0, 0, 0, 3, 1, 2, 3}, {0xff, 0xff, 0xff, 0xff},
		encodeResponse(0)[:20]} {
		if err := readResponse(bytes.NewReader(bad)); err == nil {
			t.Errorf("response % x: got no error, want one", bad)
		}
	}
}

func TestSequenceNumbersAreConsecutive(t *testing.T) {
	l := load{topic: "t", recordBytes: 10, records: 7, batches: 3, idempotent: true}
	frames, err := l.frames()
	if err != nil || len(frames) != 3 {
		t.Fatalf("got %d frames, error %v; want 3 frames", len(frames), err)
	}
	for i, frame := range frames {
		req := kmsg.NewPtrProduceRequest()
		req.SetVersion(produceVersion)
		if err := req.ReadFrom(frame[14:]); err != nil {
			t.Fatal(err)
		}
		b, _, err := record.Next(req.Topics[0].Partitions[0].Records)
		if err != nil || b.BaseSequence() != int32(7*i) {
			t.Errorf("batch %d: got sequence %d, error %v; want seven more than the batch before", i, b.BaseSequence(), err)
		}
	}
}

// TestExchange sends five requests to a broker that responds to all of them, and five to a broker
// that closes the connection after two responses. The second exchange must return an error.
func TestExchange(t *testing.T) {
	for _, responses := range []int{5, 2} {
		here, there := net.Pipe()
		go func() {
			defer there.Close()
			request := make([]byte, 3)
			for range responses {
				if _, err := there.Read(request); err != nil {
					return
				}
				_, _ = there.Write(encodeResponse(0))
			}
		}()
		l := load{batches: 5, inFlight: 1}
		if err := l.exchange(here, [][]byte{{1, 2, 3}}); (err == nil) != (responses == 5) {
			t.Errorf("exchange with %d responses: got error %v, want one only for 2 responses", responses, err)
		}
		_ = here.Close()
	}
}

func TestCPUTimeIncreases(t *testing.T) {
	before, err := cpuTime(os.Getpid())
	if err != nil {
		t.Skip("no scheduler accounting on this system:", err)
	}
	await.Until(t, "the CPU time increases", func() bool {
		after, err := cpuTime(os.Getpid())
		return err == nil && after > before
	})
	if _, err := cpuTime(-1); err == nil {
		t.Error("cpuTime of a missing process returned no error")
	}
}
