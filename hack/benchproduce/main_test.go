package main

import (
	"bytes"
	"encoding/binary"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/record"
)

// answer encodes a broker's answer with an error code.
func answer(code int16) []byte {
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

func TestAnErrorInAnAnswerIsAnError(t *testing.T) {
	if err := readAnswer(bytes.NewReader(answer(0))); err != nil {
		t.Error(err)
	}
	if err := readAnswer(bytes.NewReader(answer(45))); err == nil ||
		!strings.Contains(err.Error(), "error 45") {
		t.Errorf("error %v", err)
	}
	for _, bad := range [][]byte{nil, {0, 0, 0, 3, 1, 2, 3}, {0xff, 0xff, 0xff, 0xff},
		answer(0)[:20]} {
		if err := readAnswer(bytes.NewReader(bad)); err == nil {
			t.Errorf("% x: no error", bad)
		}
	}
}

func TestNumberedBatchesFollowEachOther(t *testing.T) {
	l := load{topic: "t", recordBytes: 10, records: 7, batches: 3, idempotent: true}
	frames, err := l.frames()
	if err != nil || len(frames) != 3 {
		t.Fatalf("%d frames: %v", len(frames), err)
	}
	for i, frame := range frames {
		req := kmsg.NewPtrProduceRequest()
		req.SetVersion(produceVersion)
		if err := req.ReadFrom(frame[14:]); err != nil {
			t.Fatal(err)
		}
		b, _, err := record.Next(req.Topics[0].Partitions[0].Records)
		if err != nil || b.BaseSequence() != int32(7*i) {
			t.Errorf("batch %d has sequence %d: %v", i, b.BaseSequence(), err)
		}
	}
}

// A broker that answers each request, and one that goes away.
func TestExchange(t *testing.T) {
	for _, answers := range []int{5, 2} {
		here, there := net.Pipe()
		go func() {
			defer there.Close()
			request := make([]byte, 3)
			for range answers {
				if _, err := there.Read(request); err != nil {
					return
				}
				_, _ = there.Write(answer(0))
			}
		}()
		l := load{batches: 5, inFlight: 1}
		if err := l.exchange(here, [][]byte{{1, 2, 3}}); (err == nil) != (answers == 5) {
			t.Errorf("%d answers: %v", answers, err)
		}
		_ = here.Close()
	}
}

func TestProcessorTimeRises(t *testing.T) {
	before, err := processorTime(os.Getpid())
	if err != nil {
		t.Skip("no account of the scheduler here:", err)
	}
	used := 0
	for begin := time.Now(); time.Since(begin) < 20*time.Millisecond; {
		used++
	}
	if after, err := processorTime(os.Getpid()); err != nil || after < before {
		t.Errorf("%v, then, after %d rounds, %v: %v", before, used, after, err)
	}
	if _, err := processorTime(-1); err == nil {
		t.Error("a process that is not there has used time")
	}
}
