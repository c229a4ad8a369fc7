// Package maystop asks the brokers of a LogCluster whether a broker may be stopped.
package maystop

import (
	"heartwood.dev/heartwood/controllers/peertls"

	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/logcluster/facts"
	"heartwood.dev/heartwood/internal/operator/render"
)

const (
	// timeout is the timeout of a request to one broker, including the response body.
	timeout = 2 * time.Second
	// concurrency is the maximum number of concurrent requests.
	concurrency = 16
	// maxBytes is the maximum size of a response.
	maxBytes = 1 << 20
)

// Asker asks brokers whether another broker may be stopped.
type Asker struct {
	// Transport is used for requests to brokers without TLS; default http.DefaultTransport.
	Transport http.RoundTripper
	// TLS provides the transports for requests to brokers with TLS.
	TLS *peertls.Client
}

// Ask asks all brokers that are up whether a broker may be stopped. It returns the reason for a
// refusal, or "". The brokers are asked because leaders know before the operator's cache that a
// replica has left the ISR. A missing answer counts as a refusal, unless it is missing from the
// broker to be stopped and the pod of this broker is not ready: this broker may need the restart. A
// broker of a version without this request (status 404) has no objection; then only the operator's
// own check applies.
func (a *Asker) Ask(ctx context.Context, s *facts.Facts, id int32) (refusal string) {
	var group errgroup.Group
	group.SetLimit(concurrency)
	var mu sync.Mutex
	var refusals []string
	stops := s.Pod(id)
	hangs := stops == nil || !facts.PodReady(stops)
	for _, pod := range s.UpBrokers() {
		group.Go(func() error {
			answer, err := a.ask(ctx, s.Cluster, pod, id)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil && pod == id && hangs:
			case err != nil:
				refusals = append(refusals, fmt.Sprintf("Broker %d did not say whether broker %d "+
					"may be stopped: %v.", pod, id, cause(err)))
			case !answer.MayStop && len(answer.Blocking) > 0:
				b := answer.Blocking[0]
				refusals = append(refusals, fmt.Sprintf("Without broker %d, partition %s/%d has "+
					"too few in-sync replicas: brokers %v are in sync.", id, b.Topic, b.Partition,
					b.InSyncReplicas))
			case !answer.MayStop:
				refusals = append(refusals,
					fmt.Sprintf("Broker %d says that broker %d must not be stopped now.", pod, id))
			}
			return nil
		})
	}
	_ = group.Wait() // always nil: no function of the group returns an error
	if len(refusals) == 0 {
		return ""
	}
	return slices.Min(refusals)
}

// cause returns the cause of a failed request without addresses and ports, so that the same failure
// always has the same text.
func cause(err error) error {
	if failed := (*url.Error)(nil); errors.As(err, &failed) {
		err = failed.Err
	}
	if failed := (*net.OpError)(nil); errors.As(err, &failed) {
		err = fmt.Errorf("%s: %w", failed.Op, failed.Err)
	}
	return err
}

// ask asks one broker whether broker id may be stopped.
func (a *Asker) ask(ctx context.Context, cluster *v1alpha1.LogCluster, broker,
	id int32) (report.MayStop, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	scheme, transport, err := a.TLS.HTTP(ctx, client.ObjectKeyFromObject(cluster), broker,
		a.Transport)
	if err != nil {
		return report.MayStop{}, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet,
		fmt.Sprintf("%s://%s/api/v1/may-stop/%d", scheme,
			render.HTTPAddress(cluster.Name, cluster.Namespace, broker), id), nil)
	if err != nil {
		return report.MayStop{}, err
	}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return report.MayStop{}, err
	}
	defer func() { _ = response.Body.Close() }()
	switch response.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound:
		return report.MayStop{MayStop: true}, nil
	default:
		return report.MayStop{}, fmt.Errorf("status %s", response.Status)
	}
	var answer report.MayStop
	err = json.NewDecoder(io.LimitReader(response.Body, maxBytes)).Decode(&answer)
	return answer, err
}
