package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/api/summary"
)

const (
	// answerTimeout bounds one answer, its body included.
	answerTimeout = 10 * time.Second
	// answerBytesMax bounds what is read of one answer.
	answerBytesMax = 64 << 20
)

// Refused is a request that a broker answered with a Failure.
type Refused struct {
	Address string
	Status  int
	report.Failure
}

func (r *Refused) Error() string { return r.Failure.Error }

// ParseAddress takes HOST:PORT, or the http://HOST:PORT that the ready line of heartwood dev
// prints, and returns HOST:PORT.
func ParseAddress(text string) (string, error) {
	address := strings.TrimSuffix(strings.TrimPrefix(text, "http://"), "/")
	host, port, err := net.SplitHostPort(address)
	if err != nil || host == "" {
		return "", errors.New("want HOST:PORT, such as 127.0.0.1:9644")
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", errors.New("want a port from 1 to 65535")
	}
	return address, nil
}

// Client asks brokers; the zero value works.
type Client struct{ http http.Client }

// Topics is GET /api/v1/topics; all topics if none are named.
func (c *Client) Topics(ctx context.Context, address string,
	topics []string) (answer summary.Topics, err error) {
	err = c.ask(ctx, http.MethodGet, address,
		"/api/v1/topics?"+url.Values{"topic": topics}.Encode(), &answer)
	return answer, err
}

// partitions is GET /api/v1/partitions of one topic.
func (c *Client) partitions(ctx context.Context, address, topic string) (answer report.Partitions,
	err error) {
	err = c.ask(ctx, http.MethodGet, address,
		"/api/v1/partitions?"+url.Values{"topic": {topic}}.Encode(), &answer)
	return answer, err
}

// clean is POST /api/v1/topics/TOPIC/clean.
func (c *Client) clean(ctx context.Context, address, topic string,
	partitions []int32) (answer report.CleanRequests, err error) {
	query := url.Values{}
	for _, index := range partitions {
		query.Add("partition", strconv.Itoa(int(index)))
	}
	err = c.ask(ctx, http.MethodPost, address,
		"/api/v1/topics/"+url.PathEscape(topic)+"/clean?"+query.Encode(), &answer)
	return answer, err
}

// ask fails with a *Refused if the broker gave a reason. Fields that are not known here are passed
// over, so brokers may be newer.
func (c *Client) ask(ctx context.Context, method, address, path string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, "http://"+address+path, http.NoBody)
	if err != nil {
		return err
	}
	response, err := c.http.Do(request)
	if err != nil {
		var failed *url.Error
		if errors.As(err, &failed) {
			err = failed.Err // without the address, which would come twice
		}
		return fmt.Errorf("no broker answers at %s: %w", address, err)
	}
	defer func() { _ = response.Body.Close() }()
	body := json.NewDecoder(io.LimitReader(response.Body, answerBytesMax))
	if response.StatusCode >= http.StatusBadRequest {
		refused := &Refused{Address: address, Status: response.StatusCode}
		if body.Decode(&refused.Failure) != nil || refused.Failure.Error == "" {
			refused.Failure.Error = fmt.Sprintf("%s is no broker's HTTP port: it answers %s",
				address, response.Status)
		}
		return refused
	}
	if err := body.Decode(into); err != nil {
		return fmt.Errorf("%s is no broker's HTTP port: read its answer: %w", address, err)
	}
	return nil
}
