package httpport

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/placement"
)

// MayStop returns the response of GET /api/v1/may-stop/BROKER. It considers only partitions that
// brokers of this process lead, because the leader is the first to know about a change of the ISR.
// It fails with ErrStarting while the brokers have no metadata image.
func (all Brokers) MayStop(broker int32) (report.MayStop, error) {
	answer := report.MayStop{Broker: broker, MayStop: true,
		Blocking: []report.BlockingPartition{}}
	image := all.Image()
	if image == nil {
		return answer, ErrStarting
	}
	leads := all.leaders()
	for _, topic := range image.Topics {
		for _, p := range topic.Partitions {
			id := logstore.PartitionID{Topic: topic.Name, Index: p.Index}
			if _, ok := leads[p.Leader][id]; !ok {
				continue
			}
			stop := placement.Stop{Replicas: p.Replicas, InSync: inSyncAndUp(image, p),
				MinISR: topic.Settings.MinInSyncReplicas}
			if stop.MayStop(broker) {
				continue
			}
			answer.MayStop = false
			if len(answer.Blocking) < report.BlockingMax {
				answer.Blocking = append(answer.Blocking, report.BlockingPartition{
					Topic: topic.Name, Partition: p.Index,
					Replicas:          append([]int32{}, p.Replicas...),
					InSyncReplicas:    append([]int32{}, stop.InSync...),
					MinInSyncReplicas: stop.MinISR,
				})
			}
		}
	}
	return answer, nil
}

// inSyncAndUp returns the brokers that are up and in the partition's ISR.
func inSyncAndUp(image *metadata.Image, p *metadata.Partition) []int32 {
	return slices.DeleteFunc(slices.Clone(p.ISR), func(id int32) bool {
		_, up := image.Broker(id)
		return !up
	})
}

// mayStopHTTP responds with the result of MayStop. Before the operator restarts a broker, it sends
// this request to every broker.
func mayStopHTTP(w http.ResponseWriter, r *http.Request,
	mayStop func(int32) (report.MayStop, error)) {
	id, err := strconv.ParseInt(r.PathValue("broker"), 10, 32)
	if err != nil || id < 0 {
		respond(w, http.StatusBadRequest, report.Failure{
			Error:  fmt.Sprintf("broker %q is not a broker id", r.PathValue("broker")),
			Reason: "BadRequest"})
		return
	}
	answer, err := mayStop(int32(id))
	if err != nil {
		respond(w, http.StatusServiceUnavailable,
			report.Failure{Error: err.Error(), Reason: "NotReady"})
		return
	}
	respond(w, http.StatusOK, answer)
}
