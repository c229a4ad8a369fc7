package cleaner

import "time"

// ioRate measures the bytes per second of a running pass over the last rateWindow. The mean since
// the start of the pass would hide that a pass has become slower. The zero value has no samples.
type ioRate struct {
	samples []ioSample // ascending, at least rateGap apart
}

// ioSample is the number of bytes that a pass had read and written at a certain time.
type ioSample struct {
	moment time.Time
	bytes  int64
}

const (
	rateWindow = 10 * time.Second
	rateGap    = time.Second
)

// add adds a sample, unless the last sample is younger than rateGap.
func (r *ioRate) add(now time.Time, bytes int64) {
	if n := len(r.samples); n > 0 && now.Sub(r.samples[n-1].moment) < rateGap {
		return
	}
	r.samples = append(r.samples[r.first(now):], ioSample{now, bytes})
}

// first returns the index of the sample with which the window begins.
func (r *ioRate) first(now time.Time) (first int) {
	for i := range r.samples {
		if now.Sub(r.samples[i].moment) >= rateWindow {
			first = i
		}
	}
	return first
}

// perSecond returns the I/O rate of a pass that has read and written the given number of bytes so
// far. It returns nil until the first sample is rateGap old.
func (r *ioRate) perSecond(now time.Time, bytes int64) *float64 {
	if len(r.samples) == 0 {
		return nil
	}
	from := r.samples[r.first(now)]
	elapsed := now.Sub(from.moment)
	if elapsed < rateGap {
		return nil
	}
	return new(float64(bytes-from.bytes) / elapsed.Seconds())
}
