# The course's container with Ray Serve in it: docker build -f deploy/ray.Dockerfile -t tiny-llm-ray:0.1.0 .
FROM tiny-llm:0.1.0
USER root
# In the image's own Python: the course's packages are in its .venv.
RUN pip install --no-cache-dir 'ray[serve]==2.60.0'
USER course
COPY --chown=course deploy deploy
HEALTHCHECK NONE
ENTRYPOINT ["serve", "run", "deploy/ray_serve.yaml"]
