"""The tiny vision-language-action model: small enough to be trained and run on two CPU cores."""
