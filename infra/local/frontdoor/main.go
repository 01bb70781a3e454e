// Frontdoor gives the local stack the one base URL that API Gateway gives it on AWS.
//
// The emulator behind it buffers every answer. So for the routes that the template streams, the front door is the Lambda service
// itself: it starts the unmodified bootstrap of the streamed function, serves the Runtime API to it, hands it REST proxy events
// and passes its chunks on as they come, with the credentials of the function's own role. Everything else is passed to the
// emulator's REST API, and upgrades to its WebSocket API. On all routes it keeps AWS's limits, which the emulator has none of, so
// that what fails there fails here. Like API Gateway it does not tell a function that its client has gone.
package main

import (
	"context"
	"errors"
	"flag"
	"log"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

func main() {
	log.SetFlags(log.Ldate | log.Ltime | log.Lmicroseconds)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	listen := flag.String("listen", "127.0.0.1:3000", "address of the base URL")
	emulator := flag.String("emulator", "http://127.0.0.1:4566", "address of the AWS emulator")
	restAPI := flag.String("rest-api", "", "id of the REST API")
	restStage := flag.String("rest-stage", "v1", "its stage")
	webSocketAPI := flag.String("websocket-api", "", "id of the WebSocket API")
	webSocketStage := flag.String("websocket-stage", "v1", "its stage")
	function := flag.String("function", "", "name of the streamed function")
	code := flag.String("code", "", "folder of its unpacked code")
	concurrency := flag.Int("concurrency", 64, "requests that its process serves at once")
	pidFile := flag.String("pid-file", "", "where the pid of its process is written")
	flag.Parse()

	target, err := url.Parse(*emulator)
	if err != nil {
		return err
	}
	folder, err := filepath.Abs(*code)
	if err != nil {
		return err
	}

	api, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	service, err := loadFunction(ctx, *emulator, *function)
	if err != nil {
		return err
	}
	queue := newQueue(service.arn)
	mux := http.NewServeMux()
	mux.Handle("/2018-06-01/runtime/", queue)
	mux.Handle(credentialsPath, service)
	go func() { log.Print(http.Serve(api, mux)) }()

	process := &bootstrap{
		function:    service,
		queue:       queue,
		folder:      folder,
		runtimeAPI:  api.Addr().String(),
		concurrency: *concurrency,
		pidFile:     *pidFile,
	}
	done := make(chan struct{})
	go func() { defer close(done); process.supervise(ctx) }()

	gateway := &gateway{
		stage:    *restStage,
		apiID:    *restAPI,
		queue:    queue,
		timeout:  service.timeout,
		idle:     idleLimit,
		rest:     newRESTProxy(target, *restAPI, *restStage),
		upgrades: newUpgradeProxy(target, *webSocketAPI, *webSocketStage),
	}
	server := &http.Server{Addr: *listen, Handler: gateway, ReadHeaderTimeout: 30 * time.Second}
	go func() {
		<-ctx.Done()
		// Answers that are under way end with the process that writes them.
		_ = server.Close()
	}()
	log.Printf("serving %s", *listen)
	err = server.ListenAndServe()
	<-done
	if !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	if *pidFile != "" {
		_ = os.Remove(*pidFile)
	}
	return nil
}
