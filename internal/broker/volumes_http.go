package broker

import (
	"net/http"
	"strings"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/api/summary"
	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/pressure"
)

// handleVolumes adds the endpoint of volumes.
func handleVolumes(mux *http.ServeMux, brokers func() Brokers) {
	mux.HandleFunc("GET /api/v1/volumes", func(w http.ResponseWriter, _ *http.Request) {
		respond(w, http.StatusOK, brokers().volumes())
	})
}

// volumes returns the volumes of these brokers.
func (all Brokers) volumes() report.Volumes {
	answer := report.Volumes{Volumes: []report.Volume{}}
	for _, b := range all {
		if v, known := b.volumes.volume(); known {
			answer.Volumes = append(answer.Volumes, v)
		}
	}
	return answer
}

// refusals describes the volumes of the brokers that refuse records.
func (all Brokers) refusals() (texts []string) {
	for _, b := range all {
		if v, known := b.volumes.volume(); known &&
			pressure.ParseLevel(v.Pressure) >= pressure.Reject {
			texts = append(texts, v.Message)
		}
	}
	return texts
}

// volume returns the last measurement of the volume, unless its size is unknown.
func (w *volumeWatch) volume() (v report.Volume, known bool) {
	state, limits := w.state.Load(), w.limits.Load()
	if state.Total <= 0 {
		return v, false
	}
	reject, hysteresis := limits.Limit(pressure.Reject, state.Volume, limits.segmentBytes)
	v = report.Volume{Broker: w.broker.opts.NodeID, Pressure: state.level.String(),
		UsedPercent: int32(state.UsedPercent()), TotalBytes: state.Total, FreeBytes: state.Free,
		RejectFreeBytes: reject, ReclaimableBytes: w.broker.reclaimableBytes()}
	for _, known := range summary.PressureLevels {
		if known.Level == v.Pressure {
			text := []string{summary.DescribeVolume(v.Broker, &v1alpha1.BrokerVolume{
				Pressure: v.Pressure, UsedPercent: v.UsedPercent, TotalBytes: v.TotalBytes,
				ReclaimableBytes: v.ReclaimableBytes}) + ".", summary.Binary(v.FreeBytes) + " are free."}
			if state.level >= pressure.Reject {
				text = append(text, "It accepts records again when more than "+
					summary.Binary(reject+hysteresis)+" are free.")
			}
			v.Message = strings.Join(append(text, known.Effect), " ")
		}
	}
	return v, true
}
