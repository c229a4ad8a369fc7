package main

import (
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func TestLatenciesSinceTheMark(t *testing.T) {
	l := &latencies{topics: map[string]map[int64]int{}}
	l.add("orders", time.Hour) // ignored, because the first mark begins the measurement
	l.mark("orders")
	for ms := range 200 {
		l.add("orders", time.Duration(ms+1)*time.Millisecond)
		l.add("other", time.Hour)
	}
	if records, p50, p99 := l.measured("orders"); records != 200 || p50 != 100 || p99 != 198 {
		t.Errorf("got %d records, p50 %d ms, p99 %d ms", records, p50, p99)
	}
	l.mark("orders")
	if records, p50, p99 := l.measured("orders"); records+int(p50+p99) != 0 {
		t.Errorf("after the mark: %d records, p50 %d ms, p99 %d ms", records, p50, p99)
	}
	l.add("orders", 7*time.Millisecond)
	if records, p50, p99 := l.measured("orders"); records != 1 || p50 != 7 || p99 != 7 {
		t.Errorf("one record of 7 ms: %d records, p50 %d ms, p99 %d ms", records, p50, p99)
	}
}

func TestFailedRecordsHaveNoLatency(t *testing.T) {
	l := &latencies{topics: map[string]map[int64]int{}}
	l.mark("orders")
	r := &kgo.Record{Topic: "orders", Timestamp: time.Now()}
	l.OnProduceRecordUnbuffered(r, errors.New("failed"))
	if records, _, _ := l.measured("orders"); records != 0 {
		t.Errorf("%d records", records)
	}
	l.OnProduceRecordUnbuffered(r, nil)
	if records, _, _ := l.measured("orders"); records != 1 {
		t.Errorf("%d records", records)
	}
}
