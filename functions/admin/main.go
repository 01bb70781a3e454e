// Command admin is the Lambda function that creates the first administrator.
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
	lambda.Start(a.Admin)
}
