// Command socket is the Lambda function behind the WebSocket API.
package main

import (
	"context"
	"log"

	"github.com/aws/aws-lambda-go/lambda"

	"toolrounds/shared/app"
)

func main() {
	a, err := app.New(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	lambda.Start(a.Sockets().Handle)
}
