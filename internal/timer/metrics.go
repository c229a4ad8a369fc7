package timer

import "github.com/prometheus/client_golang/prometheus"

// register exports the purgatory's counters as metrics.
func (p *Purgatory[K]) register(opts Options) {
	if opts.Registry == nil {
		return
	}
	labels := prometheus.Labels{"operation": opts.Operation}
	gauge := func(name, help string, value func() int64) {
		opts.Registry.MustRegister(prometheus.NewGaugeFunc(
			prometheus.GaugeOpts{Namespace: "heartwood", Name: name, Help: help,
				ConstLabels: labels},
			func() float64 { return float64(value()) }))
	}
	counter := func(name, help string, value func() int64) {
		opts.Registry.MustRegister(prometheus.NewCounterFunc(
			prometheus.CounterOpts{Namespace: "heartwood", Name: name, Help: help,
				ConstLabels: labels},
			func() float64 { return float64(value()) }))
	}
	gauge("timer_pending", "Timeouts in the timing wheel.",
		func() int64 { return int64(p.timer.Stats().Pending) })
	gauge("purgatory_pending", "Delayed operations that wait for an event or their timeout.", func() int64 { return p.figures().pending })
	gauge("purgatory_watched",
		"Watch list entries: each waiting operation has one for each key that it watches.",
		func() int64 { return p.figures().watched })
	counter("purgatory_completed_total", "Operations that were completed by an event, or at once without waiting.",
		func() int64 { return p.figures().completed })
	counter("purgatory_expired_total",
		"Operations that expired by their timeout, by cancellation or by shutdown.",
		func() int64 { return p.figures().expired })
	counter("purgatory_purges_total",
		"Watch list entries that were removed because their operation had ended.",
		func() int64 { return p.figures().purged })
}
