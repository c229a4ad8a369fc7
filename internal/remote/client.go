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
	"slices"
	"strconv"
	"strings"
	"time"

	"heartwood.dev/heartwood/api/report"
)

const (
	// responseTimeout limits the duration of one request, including reading the response's body.
	responseTimeout = 10 * time.Second
	// responseBytesMax limits the number of bytes that are read from one response.
	responseBytesMax = 64 << 20
)

// Refused is the error for a request to which a broker responded with a Failure.
type Refused struct {
	Address string
	Status  int
	report.Failure
}

func (r *Refused) Error() string { return r.Failure.Error }

// ParseAddress parses HOST:PORT, http://HOST:PORT (the format of the ready line of `heartwood
// dev`), and https://HOST:PORT. It returns HOST:PORT.
func ParseAddress(text string) (string, error) {
	address := strings.TrimPrefix(strings.TrimPrefix(text, "http://"), "https://")
	address = strings.TrimSuffix(address, "/")
	host, port, err := net.SplitHostPort(address)
	if err != nil || host == "" {
		return "", errors.New("want HOST:PORT, such as 127.0.0.1:9644")
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", errors.New("want a port from 1 to 65535")
	}
	return address, nil
}

// errNeedsTLS is the error for a request without TLS to a port that requires TLS.
var errNeedsTLS = errors.New("the HTTP port may require TLS: give --ca-file, and a token by " +
	"--token-file")

// Client sends requests to brokers' HTTP ports. The zero value connects without TLS.
type Client struct {
	http  http.Client
	tls   bool
	token Token // nil: no token
}

// Unknown returns an error that lists the requested names that were not found, or nil.
func Unknown(what string, requested, found []string) error {
	var faults []error
	for _, name := range requested {
		if !slices.Contains(found, name) {
			faults = append(faults, fmt.Errorf("unknown %s %q", what, name))
		}
	}
	return errors.Join(faults...)
}

// placement requests GET /api/v1/placement for the topics, or for all topics if topics is empty.
func (c *Client) placement(ctx context.Context, address string,
	topics []string) (response report.Placement, err error) {
	err = c.do(ctx, http.MethodGet, address,
		"/api/v1/placement?"+url.Values{"topic": topics}.Encode(), &response)
	return response, err
}

// rows requests GET /api/v1/partitions for the topics, or for all topics if topics is empty.
func (c *Client) rows(ctx context.Context, address string,
	topics []string) (response report.Partitions, err error) {
	err = c.do(ctx, http.MethodGet, address,
		"/api/v1/partitions?"+url.Values{"topic": topics}.Encode(), &response)
	return response, err
}

// Volumes requests GET /api/v1/volumes.
func (c *Client) Volumes(ctx context.Context, address string) ([]report.Volume, error) {
	var response report.Volumes
	err := c.do(ctx, http.MethodGet, address, "/api/v1/volumes", &response)
	return response.Volumes, err
}

// VolumesOf returns the volumes of the brokers at several addresses. It omits brokers that do not
// respond.
func (c *Client) VolumesOf(ctx context.Context, addresses []string) []report.Volume {
	all := []report.Volume{}
	for _, address := range addresses {
		if volumes, err := c.Volumes(ctx, address); err == nil {
			all = append(all, volumes...)
		}
	}
	return all
}

// clean requests POST /api/v1/topics/TOPIC/clean.
func (c *Client) clean(ctx context.Context, address, topic string,
	partitions []int32) (response report.CleanRequests, err error) {
	query := url.Values{}
	for _, index := range partitions {
		query.Add("partition", strconv.Itoa(int(index)))
	}
	err = c.do(ctx, http.MethodPost, address,
		"/api/v1/topics/"+url.PathEscape(topic)+"/clean?"+query.Encode(), &response)
	return response, err
}

// request returns a request to the broker at an address.
func (c *Client) request(ctx context.Context, method, address, path string) (*http.Request, error) {
	scheme := "http://"
	if c.tls {
		scheme = "https://"
	}
	request, err := http.NewRequestWithContext(ctx, method, scheme+address+path, http.NoBody)
	if err != nil || c.token == nil {
		return request, err
	}
	token, err := c.token(ctx)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	return request, nil
}

// do sends a request and decodes the JSON response into the parameter into. If into is a *[]byte,
// do stores the response in it unchanged. It fails with a *Refused if the broker responds with an
// error. It ignores unknown fields, because a broker can be newer than this client.
func (c *Client) do(ctx context.Context, method, address, path string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, responseTimeout)
	defer cancel()
	request, err := c.request(ctx, method, address, path)
	if err != nil {
		return err
	}
	response, err := c.http.Do(request)
	if err != nil {
		var failed *url.Error
		if errors.As(err, &failed) {
			err = failed.Err // without the address, which is added below
		}
		return fmt.Errorf("connect to broker at %s: %w", address, err)
	}
	defer func() { _ = response.Body.Close() }()
	limited := io.LimitReader(response.Body, responseBytesMax)
	body := json.NewDecoder(limited)
	if response.StatusCode >= http.StatusBadRequest {
		refused := &Refused{Address: address, Status: response.StatusCode}
		if body.Decode(&refused.Failure) != nil || refused.Failure.Error == "" {
			if !c.tls && response.StatusCode == http.StatusBadRequest {
				return fmt.Errorf("connect to broker at %s: %w", address, errNeedsTLS)
			}
			refused.Failure.Error = fmt.Sprintf("%s is not the HTTP port of a broker: response status %s",
				address, response.Status)
		}
		return refused
	}
	if text, ok := into.(*[]byte); ok {
		if *text, err = io.ReadAll(limited); err != nil {
			return fmt.Errorf("read the response of %s: %w", address, err)
		}
		return nil
	}
	if err := body.Decode(into); err != nil {
		return fmt.Errorf("%s is not the HTTP port of a broker: decode response: %w", address, err)
	}
	return nil
}
