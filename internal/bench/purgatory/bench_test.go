package purgatory

import (
	"testing"
)

// BenchmarkRun sends a million requests for each kind and rate. Run it with -benchtime 1x, because
// one iteration is a whole measurement.
func BenchmarkRun(b *testing.B) {
	for _, rate := range []struct {
		name  string
		value int
	}{{"free", 0}, {"400k", 400_000}} {
		for _, kind := range Kinds() {
			b.Run("rate="+rate.name+"/kind="+kind, func(b *testing.B) {
				opts := smallLoad()
				opts.Kind, opts.Rate, opts.Requests = kind, rate.value, 1_000_000
				var cpu, achieved float64
				for b.Loop() {
					result, err := Run(b.Context(), opts)
					if err != nil {
						b.Fatal(err)
					}
					cpu += result.CPUSeconds
					achieved += result.AchievedRate
				}
				b.ReportMetric(cpu/float64(b.N), "cpu-s/M")
				b.ReportMetric(achieved/float64(b.N), "requests/s")
			})
		}
	}
}
