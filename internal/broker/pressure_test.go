package broker

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/internal/broker/httpport"
	"heartwood.dev/heartwood/internal/pressure"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/await"
)

// sizedDisk is a disk of 1000 MiB with a settable amount of free space.
type sizedDisk struct {
	vfs.OS
	free atomic.Uint64
}

func (d *sizedDisk) Size(string) (uint64, error) { return 1000 << 20, nil }
func (d *sizedDisk) Free(string) (uint64, error) { return d.free.Load() << 20, nil }

// largeDisk is a sizedDisk with a size of 1000 GiB.
type largeDisk struct{ sizedDisk }

func (d *largeDisk) Size(string) (uint64, error) { return 1000 << 30, nil }

// TestLargeDiskAcceptsRecords checks that the broker accepts records on a large disk that is 95 %
// full, like the disk of a development machine, which mostly contains files of other programs.
func TestLargeDiskAcceptsRecords(t *testing.T) {
	c := newCluster(t)
	disk := &largeDisk{}
	disk.free.Store(48 << 10)
	c.fsys = disk
	c.start()
	c.level(pressure.Warn)
	if err := produceOnce(t, c.client(kgo.RecordRetries(0)), "accepted"); err != nil {
		t.Error(err)
	}
	disk.free.Store(4 << 10)
	c.level(pressure.Reject)
}

// level waits until the volume has the given pressure level.
func (c *cluster) level(want pressure.Level) {
	c.t.Helper()
	await.Until(c.t, "storage pressure "+want.String(), func() bool {
		return c.volumes.state.Load().level == want
	})
}

// TestFullVolumeRefusesProduce checks that while the volume is full, a client without retries
// receives NOT_ENOUGH_REPLICAS with the disk usage, even immediately after a restart. A client with
// retries must continue once the volume has space.
func TestFullVolumeRefusesProduce(t *testing.T) {
	c := newCluster(t)
	disk := &sizedDisk{}
	disk.free.Store(500)
	c.fsys = disk
	c.start()
	impatient := c.client(kgo.RecordRetries(0), kgo.DisableIdempotentWrite())
	if err := produceOnce(t, impatient, "accepted"); err != nil {
		t.Fatal(err)
	}
	for _, restart := range []bool{false, true} {
		disk.free.Store(70)
		if restart {
			if err := c.stop(); err != nil {
				t.Fatal(err)
			}
			c.start()
			impatient = c.client(kgo.RecordRetries(0), kgo.DisableIdempotentWrite())
			if got := c.volumes.state.Load().level; got != pressure.Reject {
				t.Errorf("level after the start: %s, want Reject", got)
			}
		}
		c.level(pressure.Reject)
		if err := produceOnce(t, impatient, "refused"); !errors.Is(err, kerr.NotEnoughReplicas) {
			t.Errorf("after restart %t: produce to a full volume: %v, want NOT_ENOUGH_REPLICAS",
				restart, err)
		}
		retried := make(chan error, 1)
		go func() { retried <- produceOnce(t, c.client(), "retried") }()
		select {
		case err := <-retried:
			t.Errorf("the retrying producer has stopped: %v", err)
		case <-time.After(500 * time.Millisecond):
		}
		disk.free.Store(500)
		if err := <-retried; err != nil {
			t.Errorf("a retried record: %v", err)
		}
	}
}

// TestRefusalIsReportedAndTheBrokerStaysReady checks that while the broker rejects records because
// its volume is full, /readyz and /api/v1/volumes report the broker, the level, the bytes and the
// remedy.
func TestRefusalIsReportedAndTheBrokerStaysReady(t *testing.T) {
	c := newCluster(t)
	disk := &sizedDisk{}
	disk.free.Store(500)
	c.fsys = disk
	c.start()
	handler := httpport.New(HTTPOf(prometheus.NewRegistry(), c.Ready,
		func() Brokers { return Brokers{c.Broker} }))
	volume := func() report.Volume {
		var answer report.Volumes
		r := get(t, handler, "GET", "/api/v1/volumes")
		if err := json.Unmarshal(r.Body.Bytes(), &answer); err != nil || len(answer.Volumes) != 1 {
			t.Fatalf("got %s: %v", r.Body, err)
		}
		return answer.Volumes[0]
	}
	v := volume()
	if v.Pressure != "None" || v.Message != "" {
		t.Errorf("without pressure: got %s, %q", v.Pressure, v.Message)
	}
	if v.FreeBytes != 500<<20 || v.TotalBytes != 1000<<20 {
		t.Errorf("without pressure: got %+v, want 500Mi of 1000Mi", v)
	}
	if v.RejectFreeBytes != 80<<20 {
		t.Errorf("without pressure: limit %d, want 80Mi", v.RejectFreeBytes)
	}
	for _, test := range []struct {
		free  uint64
		level pressure.Level
	}{{180, pressure.Warn}, {70, pressure.Reject}, {10, pressure.Reserve}, {500, pressure.None}} {
		disk.free.Store(test.free)
		c.level(test.level)
		v, ready := volume(), get(t, handler, "GET", "/readyz")
		for _, part := range []string{"Broker 0 ", "level " + test.level.String(), "of 1000Mi",
			fmt.Sprintf("%dMi are free", test.free), "Shorten retentions"} {
			if strings.Contains(v.Message, part) != (test.level > pressure.None) {
				t.Errorf("level %s: %q, part %q", test.level, v.Message, part)
			}
		}
		refuses := test.level >= pressure.Reject
		if v.Pressure != test.level.String() ||
			strings.Contains(v.Message, "when more than 100Mi are free") != refuses {
			t.Errorf("level %s: %+v", test.level, v)
		}
		if ready.Code != http.StatusOK || strings.Contains(ready.Body.String(), v.Message) != refuses &&
			v.Message != "" {
			t.Errorf("level %s: /readyz responds with %d %s", test.level, ready.Code, ready.Body)
		}
	}
}

// TestRejectFreeBytesIsTheLimitOfProduce checks that the metric is the amount of free space at
// which level Reject begins.
func TestRejectFreeBytesIsTheLimitOfProduce(t *testing.T) {
	for _, test := range []struct {
		limits pressure.Thresholds
		want   float64
	}{
		{pressure.Default(), 80 << 20},
		{pressure.Thresholds{Warn: 50, Clean: 60, Reject: 70, Exact: pressure.Reject}, 300 << 20},
	} {
		w := &volumeWatch{}
		w.limits.Store(&volumeLimits{Thresholds: test.limits})
		w.state.Store(&volumeState{Volume: pressure.Volume{Total: 1000 << 20, Free: 500 << 20}})
		if got := rejectFreeBytes(t, w); len(got) != 1 || got[0] != test.want {
			t.Errorf("thresholds %+v: %v, want %v", test.limits, got, test.want)
		}
		w.state.Store(&volumeState{})
		if got := rejectFreeBytes(t, w); len(got) > 0 {
			t.Errorf("volume of unknown size: %v, want no metric", got)
		}
	}
}

// rejectFreeBytes returns the values of the metric heartwood_volume_reject_free_bytes.
func rejectFreeBytes(t *testing.T, w *volumeWatch) (values []float64) {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(w)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == "heartwood_volume_reject_free_bytes" {
			values = append(values, family.GetMetric()[0].GetGauge().GetValue())
		}
	}
	return values
}

func TestReserveIsAppliedAndEnds(t *testing.T) {
	c := newCluster(t)
	disk := &sizedDisk{}
	disk.free.Store(500)
	c.fsys = disk
	c.start()
	disk.free.Store(30)
	c.level(pressure.Reserve)
	impatient := c.client(kgo.RecordRetries(0), kgo.DisableIdempotentWrite())
	if err := produceOnce(t, impatient, "refused"); !errors.Is(err, kerr.NotEnoughReplicas) {
		t.Errorf("produce in the reserve: %v, want NOT_ENOUGH_REPLICAS", err)
	}
	for _, step := range []struct {
		free  uint64
		level pressure.Level
	}{{70, pressure.Reject}, {110, pressure.Clean}, {180, pressure.Warn}, {900, pressure.None}} {
		disk.free.Store(step.free)
		c.level(step.level)
	}
	if err := produceOnce(t, impatient, "accepted"); err != nil {
		t.Errorf("produce with free space: %v", err)
	}
}

func TestVolumeIsMeasuredMoreOftenBeforeItIsFull(t *testing.T) {
	for _, test := range []struct {
		slack int64
		want  time.Duration
	}{{0, time.Second}, {1 << 40, time.Second}, {100e6, 200 * time.Millisecond},
		{1000, shortestMeasureInterval}} {
		if got := measureInterval(test.slack); got != test.want {
			t.Errorf("slack of %d bytes: interval %s, want %s", test.slack, got, test.want)
		}
	}
}
