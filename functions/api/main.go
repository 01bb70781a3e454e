// Command api is the Lambda function that serves the HTTP surface by buffered answers.
package main

import (
	"context"
	"log"

	"github.com/aws/aws-lambda-go/lambda"

	"toolrounds/shared/app"
	"toolrounds/shared/lambdahttp"
)

func main() {
	a, err := app.New(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	lambda.Start(lambdahttp.Buffered(a.Handler()))
}
